#include "engine/backend/backend_factory.h"
#include "engine/cli/commands.h"
#include "engine/cli/common.h"

#include <nlohmann/json.hpp>

#include <iomanip>
#include <ostream>
#include <sstream>

namespace octavo::cli {
namespace {

std::string gibibytes(std::int64_t bytes)
{
    std::ostringstream text;
    text << std::fixed << std::setprecision(1) << double(bytes) / double(1 << 30) << " GiB";
    return text.str();
}

Result<void> runDevices(const Arguments& arguments, Streams& streams)
{
    for (const engine::DeviceDescription& device : engine::listDevices()) {
        if (arguments.has("--json")) {
            const nlohmann::ordered_json line{{"device", device.device},
                                              {"description", device.description},
                                              {"memory_bytes", device.memoryTotalBytes},
                                              {"memory_free_bytes", device.memoryFreeBytes},
                                              {"link", device.link},
                                              {"driver", device.driver}};
            streams.out << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
            continue;
        }
        streams.out << device.device << ": " << device.description << ", " << gibibytes(device.memoryFreeBytes)
                    << " of " << gibibytes(device.memoryTotalBytes) << " free";
        if (!device.link.empty())
            streams.out << ", " << device.link;
        if (!device.driver.empty())
            streams.out << ", driver " << device.driver;
        streams.out << '\n';
    }
    return {};
}

} // namespace

Command devicesCommand()
{
    return {"devices", "Lists the devices Octavo can use, with their memory", "", {jsonOption()}, runDevices};
}

} // namespace octavo::cli
