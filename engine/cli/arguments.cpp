#include "engine/cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace octavo::cli {
namespace {

Error usageError(std::string message)
{
    return Error{ErrorCode::InvalidArgument, std::move(message)};
}

std::string shown(double value)
{
    char buffer[32];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    return std::string(buffer, end);
}

} // namespace

Result<Arguments> Arguments::parse(std::span<const OptionSpec> options, std::span<const std::string> words)
{
    Arguments arguments;
    bool optionsEnded = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (optionsEnded || word.size() < 2 || word[0] != '-') {
            arguments.m_positional.push_back(word);
            continue;
        }
        if (word == "--") {
            optionsEnded = true;
            continue;
        }
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        const auto option = std::ranges::find(options, name, &OptionSpec::name);
        if (option == options.end())
            return usageError("unknown option " + name);

        std::vector<std::string>& values = arguments.m_values[name];
        if (!values.empty() && !option->repeatable)
            return usageError(name + " was given twice");
        if (option->valueName.empty()) {
            if (equals != std::string::npos)
                return usageError(name + " takes no value");
            values.emplace_back();
        } else if (equals != std::string::npos) {
            values.push_back(word.substr(equals + 1));
        } else if (i + 1 < words.size()) {
            values.push_back(words[++i]);
        } else {
            return usageError(name + " needs a value (" + option->valueName + ")");
        }
    }
    return arguments;
}

bool Arguments::has(std::string_view name) const
{
    return m_values.contains(name);
}

std::vector<std::string> Arguments::given() const
{
    std::vector<std::string> names;
    for (const auto& [name, values] : m_values)
        names.push_back(name);
    return names;
}

std::string Arguments::text(std::string_view name, std::string_view fallback) const
{
    const auto found = m_values.find(name);
    return found == m_values.end() ? std::string(fallback) : found->second.back();
}

std::vector<std::string> Arguments::texts(std::string_view name) const
{
    const auto found = m_values.find(name);
    return found == m_values.end() ? std::vector<std::string>{} : found->second;
}

Result<std::int64_t> Arguments::integer(std::string_view name, std::int64_t fallback, std::int64_t smallest,
                                        std::int64_t largest) const
{
    if (!has(name))
        return fallback;
    const std::string given = text(name);
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(given.data(), given.data() + given.size(), value);
    if (code != std::errc{} || end != given.data() + given.size())
        return usageError(std::string(name) + " is '" + given + "', must be a whole number");
    if (value < smallest)
        return usageError(std::string(name) + " is " + given + ", must be at least " + std::to_string(smallest));
    if (value > largest)
        return usageError(std::string(name) + " is " + given + ", must be at most " + std::to_string(largest));
    return value;
}

Result<double> Arguments::number(std::string_view name, double fallback, double smallest, double largest) const
{
    if (!has(name))
        return fallback;
    const std::string given = text(name);
    double value = 0.0;
    const auto [end, code] = std::from_chars(given.data(), given.data() + given.size(), value);
    if (code != std::errc{} || end != given.data() + given.size() || !std::isfinite(value))
        return usageError(std::string(name) + " is '" + given + "', must be a number");
    if (value < smallest || value > largest)
        return usageError(std::string(name) + " is " + given + ", must be between " + shown(smallest) + " and "
                          + shown(largest));
    return value;
}

} // namespace octavo::cli
