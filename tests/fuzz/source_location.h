#pragma once

/// std::source_location for clang 14, which builds the fuzz targets and has none with libstdc++ 12. Included ahead of
/// every fuzzed source by the compiler's command line.

#include <source_location>

#ifndef __cpp_lib_source_location
namespace std {

class source_location
{
public:
    static constexpr source_location current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE())
    {
        source_location here;
        here.m_file = file;
        here.m_line = line;
        return here;
    }
    constexpr const char* file_name() const { return m_file; }
    constexpr unsigned line() const { return m_line; }

private:
    const char* m_file = "";
    unsigned m_line = 0;
};

} // namespace std
#endif
