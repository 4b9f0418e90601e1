#include "engine/result.h"

namespace octavo {

std::string_view errorTitle(ErrorCode code)
{
    switch (code) {
    case ErrorCode::FileUnreadable: return "A file cannot be read";
    case ErrorCode::FileUnwritable: return "A file cannot be written";
    case ErrorCode::FormatInvalid: return "A file is damaged or of another format";
    case ErrorCode::ShapeMismatch: return "The model's tensors do not fit together";
    case ErrorCode::Unsupported: return "Not supported";
    case ErrorCode::OutOfMemory: return "Not enough memory";
    case ErrorCode::DeviceOutOfMemory: return "Not enough device memory";
    case ErrorCode::DeviceFailure: return "The device stopped working";
    case ErrorCode::ContextFull: return "The context is full";
    case ErrorCode::Busy: return "Too much at once";
    case ErrorCode::NotFound: return "Not found";
    case ErrorCode::RepositoryInvalid: return "Not a readable git repository";
    case ErrorCode::DatabaseFailure: return "The session store failed";
    case ErrorCode::InvalidArgument: return "A value is out of range";
    case ErrorCode::Cancelled: return "Cancelled";
    }
    return "Unknown error";
}

} // namespace octavo
