/// The safetensors header parser on any bytes: whatever it accepts must lie inside the file, without gap or overlap.
///
/// build/fuzz/bin/fuzz_safetensors -max_total_time=120 -max_len=4096 CORPUS

#include "engine/model/safetensors.h"

#include <cstdint>
#include <cstdlib>

using namespace octavo::engine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    const auto header = SafetensorsHeader::parse(bytes, size, "fuzz");
    if (!header) {
        if (header.error().message.find('\n') != std::string::npos)
            std::abort();
        return 0;
    }
    std::uint64_t covered = 0;
    for (const TensorInfo& tensor : header->tensors) {
        if (tensor.begin != covered || tensor.end < tensor.begin ||
            tensor.elements() * dtypeSize(tensor.dtype) != tensor.end - tensor.begin)
            std::abort();
        covered = tensor.end;
    }
    if (header->dataStart + covered != size)
        std::abort();
    return 0;
}
