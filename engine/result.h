#pragma once

/// Errors as values. Result<T> holds a value or an Error; Result<void> success or an Error.
///
/// The names are those of std::expected, so that one day this becomes an alias for it. A dropped Result is a warning.
/// Exceptions do not cross a folder: a library that throws is caught where it is entered and becomes an Error.
///
///     Result<Model> load(const std::filesystem::path& path)
///     {
///         OCTAVO_TRY(auto file, WeightFile::open(path));   // returns the Error, or declares file
///         OCTAVO_CHECK(file.verify());                     // returns the Error, or goes on
///         ...

#include <cassert>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace octavo {

/// What went wrong, for code to branch on. errorTitle() has the words; tests hold the two together.
enum class ErrorCode {
    FileUnreadable,     ///< a file or folder is missing, not readable, or ended early
    FileUnwritable,     ///< a file could not be written: no space, no permission
    FormatInvalid,      ///< a file's content breaks its format
    ShapeMismatch,      ///< a tensor has another shape than the model needs
    Unsupported,        ///< valid, but not something Octavo can do
    OutOfMemory,        ///< host memory does not suffice; nothing was changed
    DeviceOutOfMemory,  ///< device memory does not suffice; nothing was changed
    DeviceFailure,      ///< a device stopped working; its sequences are lost, the program is not
    ContextFull,        ///< more tokens than the context may hold
    Busy,               ///< a bounded queue is full; try again
    NotFound,           ///< a named thing does not exist
    RepositoryInvalid,  ///< not a git repository, or one that cannot be read
    DatabaseFailure,    ///< the session store failed
    InvalidArgument,    ///< a caller's or user's value is out of range
    Cancelled,          ///< stopped on request before there was a result
};

/// A short title for each code, in plain English ("Not enough memory").
std::string_view errorTitle(ErrorCode code);

/// An expected failure. `message` is one sentence for a person: what was tried, what was found, what was wanted.
struct Error {
    ErrorCode code = ErrorCode::InvalidArgument;
    std::string message;
    std::source_location where = std::source_location::current();
};

template <typename T>
class [[nodiscard]] Result
{
public:
    using value_type = T;

    Result(T value) : m_state(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : m_state(std::in_place_index<1>, std::move(error)) {}

    bool has_value() const noexcept { return m_state.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    T& value() & { assert(has_value() && "value() of a failed Result"); return std::get<0>(m_state); }
    const T& value() const& { assert(has_value() && "value() of a failed Result"); return std::get<0>(m_state); }
    T&& value() && { assert(has_value() && "value() of a failed Result"); return std::get<0>(std::move(m_state)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    const Error& error() const& { assert(!has_value() && "error() of a good Result"); return std::get<1>(m_state); }
    Error&& error() && { assert(!has_value() && "error() of a good Result"); return std::get<1>(std::move(m_state)); }

private:
    std::variant<T, Error> m_state;
};

template <>
class [[nodiscard]] Result<void>
{
public:
    using value_type = void;

    Result() = default;
    Result(Error error) : m_failed(true), m_error(std::move(error)) {}

    bool has_value() const noexcept { return !m_failed; }
    explicit operator bool() const noexcept { return has_value(); }
    const Error& error() const& { assert(m_failed && "error() of a good Result"); return m_error; }
    Error&& error() && { assert(m_failed && "error() of a good Result"); return std::move(m_error); }

private:
    bool m_failed = false;
    Error m_error;
};

} // namespace octavo

#define OCTAVO_CONCAT_INNER(a, b) a##b
#define OCTAVO_CONCAT(a, b) OCTAVO_CONCAT_INNER(a, b)
#define OCTAVO_TRY_INNER(result, declaration, expression)                                                              \
    auto result = (expression);                                                                                        \
    if (!result)                                                                                                       \
        return std::move(result).error();                                                                              \
    declaration = *std::move(result)

/// OCTAVO_TRY(auto x, f()): returns f()'s Error from the enclosing function, else declares x with the value.
#define OCTAVO_TRY(declaration, expression)                                                                            \
    OCTAVO_TRY_INNER(OCTAVO_CONCAT(octavoResult, __LINE__), declaration, expression)

/// OCTAVO_CHECK(f()): returns f()'s Error from the enclosing function, else goes on.
#define OCTAVO_CHECK(expression)                                                                                       \
    do {                                                                                                               \
        if (auto octavoResult = (expression); !octavoResult)                                                           \
            return std::move(octavoResult).error();                                                                    \
    } while (false)
