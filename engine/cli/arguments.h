#pragma once

/// Command line arguments, checked against what a command declares.

#include "engine/result.h"

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::cli {

/// One option of a command: "--max-tokens N", or a switch where valueName is empty.
struct OptionSpec {
    std::string name;      ///< with its dashes: "--model"
    std::string valueName; ///< "DIR"; empty: takes no value
    std::string help;
    bool repeatable = false;
};

/// What was given, after all names were checked. A value out of range is an InvalidArgument that names the option.
class Arguments
{
public:
    /// Takes "--name value", "--name=value", switches and positionals; "--" ends the options. Fails with
    /// InvalidArgument.
    static Result<Arguments> parse(std::span<const OptionSpec> options, std::span<const std::string> words);

    bool has(std::string_view name) const;
    std::vector<std::string> given() const; ///< names of the options that were given, sorted
    std::string text(std::string_view name, std::string_view fallback = {}) const;
    std::vector<std::string> texts(std::string_view name) const;
    Result<std::int64_t> integer(std::string_view name, std::int64_t fallback, std::int64_t smallest = 0,
                                 std::int64_t largest = std::numeric_limits<std::int64_t>::max()) const;
    Result<double> number(std::string_view name, double fallback, double smallest, double largest) const;
    const std::vector<std::string>& positional() const { return m_positional; }

private:
    std::map<std::string, std::vector<std::string>, std::less<>> m_values;
    std::vector<std::string> m_positional;
};

} // namespace octavo::cli
