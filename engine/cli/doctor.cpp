#include "engine/evaluation/doctor.h"
#include "engine/backend/backend_factory.h"
#include "engine/cli/commands.h"
#include "engine/cli/common.h"
#include "engine/evaluation/memory_plan.h"
#include "engine/model/model_shapes.h"
#include "engine/scheduler/memory_budget.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <ostream>

namespace octavo::cli
{
namespace
{

using Json = nlohmann::ordered_json;
using namespace engine;

constexpr double gib = double(1 << 30);

/// One place that memory was planned for.
struct PlannedDevice {
    std::string device, description;
    MemoryPlan plan;
};

struct Findings {
    std::optional<CheckpointAudit> audit;
    std::string shape;
    std::int64_t parameters = 0, mtpParameters = 0;
    MemoryPlanRequest request;
    std::vector<PlannedDevice> devices;

    bool fits() const
    {
        return std::all_of(devices.begin(), devices.end(), [](const PlannedDevice& d) { return d.plan.fits(); });
    }
};

std::string grouped(std::int64_t number)
{
    std::string digits = std::to_string(number);
    for (std::ptrdiff_t at = std::ptrdiff_t(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3)
        digits.insert(std::size_t(at), 1, ',');
    return digits;
}

std::string size(std::int64_t bytes)
{
    char text[32];
    const double value = double(bytes);
    if (value >= gib)
        std::snprintf(text, sizeof text, "%.2f GiB", value / gib);
    else
        std::snprintf(text, sizeof text, "%.1f MiB", value / double(1 << 20));
    return text;
}

std::vector<PlannedDevice> planDevices(const Findings& findings, std::int64_t askedDeviceBytes)
{
    std::vector<PlannedDevice> planned;
    auto plan = [&](std::string device, std::string description, std::int64_t deviceBytes,
                    std::int64_t totalBytes = 0) {
        MemoryPlanRequest request = findings.request;
        request.deviceBytes = deviceBytes;
        request.deviceTotalBytes = totalBytes;
        if (deviceBytes == 0 && findings.audit)
            request.weightBytes = findings.audit->cpuWeightBytes;
        planned.push_back({std::move(device), std::move(description), planMemory(request)});
    };
    if (askedDeviceBytes > 0) {
        plan("cuda", "a GPU of " + size(askedDeviceBytes), askedDeviceBytes);
        return planned;
    }
    for (const DeviceDescription& device : listDevices()) {
        if (device.device != "cpu")
            plan(device.device, device.description, device.memoryFreeBytes, device.memoryTotalBytes);
        else if (planned.empty())
            plan(device.device, device.description, 0);
    }
    return planned;
}

Json toJson(const Findings& f)
{
    Json line;
    if (f.audit) {
        const CheckpointAudit& a = *f.audit;
        line["model"] = a.name;
        line["tensors"] = a.tensors;
        line["ignored_tensors"] = a.ignoredTensors;
        line["files"] = a.files;
        line["file_bytes"] = a.fileBytes;
        line["formats"] = a.formats;
        line["act_order_modules"] = a.actOrderModules;
        line["asymmetric_modules"] = a.asymmetricModules;
        line["tied_head"] = a.tiedHead;
        line["mtp"] = a.mtp;
        line["tokenizer"] = a.hasTokenizer ? Json{{"ids", a.tokenizerEndId}} : Json();
        line["basis"] = a.basisRank > 0 ? Json{{"rank", a.basisRank}} : Json();
        line["problems"] = a.problems;
    } else {
        line["shape"] = f.shape;
    }
    line["parameters"] = f.parameters;
    line["mtp_parameters"] = f.mtpParameters;
    line["agents"] = f.request.agents;
    line["context"] = f.request.contextTokens;
    line["devices"] = Json::array();
    for (const PlannedDevice& d : f.devices) {
        const DevicePlan& device = d.plan.device;
        const RamPlan& ram = d.plan.ram;
        line["devices"].push_back({{"device", d.device},
                                   {"memory_bytes", device.total},
                                   {"needed_bytes", device.needed()},
                                   {"weights_bytes", device.weights},
                                   {"sketch_bytes", device.sketch},
                                   {"recent_bytes", device.recent},
                                   {"state_bytes", device.state},
                                   {"checkpoint_bytes", device.checkpoints},
                                   {"work_space_bytes", device.workSpace},
                                   {"reading_bytes", device.reading},
                                   {"hot_buffer_bytes", device.hotBuffer},
                                   {"hot_buffer_share", device.hotShare},
                                   {"fits", device.fits()},
                                   {"ram",
                                    {{"memory_bytes", ram.total},
                                     {"needed_bytes", ram.needed()},
                                     {"host_tier_bytes", ram.hostTier},
                                     {"host_bytes_per_token", d.plan.hostBytesPerToken},
                                     {"checkpoint_bytes", ram.checkpoints},
                                     {"device_bytes", ram.device},
                                     {"fits", ram.fits()}}},
                                   {"longest_context", d.plan.longestContext}});
    }
    line["fits"] = f.fits();
    return line;
}

void printAudit(const CheckpointAudit& a, std::ostream& out)
{
    std::string formats;
    for (const auto& [format, count] : a.formats)
        formats += (formats.empty() ? "" : ", ") + std::to_string(count) + " " + format;
    out << "Model       " << a.name << ": " << grouped(a.parameters) << " parameters";
    if (a.mtp)
        out << ", " << grouped(a.mtpParameters) << " of them in MTP";
    out << "\nFiles       " << a.files << " with " << size(a.fileBytes) << ", " << a.tensors << " tensors";
    if (a.ignoredTensors > 0)
        out << " (" << a.ignoredTensors << " not used)";
    out << "\nLinears     " << formats << "; " << a.actOrderModules << " with act order, " << a.asymmetricModules
        << " asymmetric; head " << (a.tiedHead ? "tied to the embedding" : "of its own");
    out << "\nTokenizer   " << (a.hasTokenizer ? grouped(a.tokenizerEndId) + " ids" : "none");
    out << "\nBasis       "
        << (a.basisRank > 0 ? "rank " + std::to_string(a.basisRank)
                            : "none: it is fitted from the first context that is read")
        << '\n';
    for (const std::string& problem : a.problems)
        out << "Problem     " << problem << '\n';
}

void printPlan(const PlannedDevice& d, const MemoryPlanRequest& request, std::ostream& out)
{
    const DevicePlan& device = d.plan.device;
    const RamPlan& ram = d.plan.ram;
    auto row = [&](const char* name, std::int64_t bytes, const std::string& note = {}) {
        char text[96];
        std::snprintf(text, sizeof text, "  %-26s %12s", name, size(bytes).c_str());
        out << text << (note.empty() ? "" : "  ") << note << '\n';
    };
    const bool gpu = ram.device == 0;
    out << '\n'
        << d.device << " (" << d.description << "), " << request.agents << " agents with "
        << grouped(request.contextTokens) << " tokens each\n";
    row("weights", device.weights);
    row("key sketches", device.sketch);
    row("sinks and newest rows", device.recent);
    row("recurrent states", device.state);
    if (device.checkpoints > 0)
        row("checkpoints", device.checkpoints);
    row("work space", device.workSpace);
    if (device.reading > 0)
        row("reading prompts", device.reading);
    if (gpu) {
        row("needed of the device", device.needed(), device.fits() ? "fits" : "does not fit");
        row("there", device.total);
    }
    char share[48];
    std::snprintf(share, sizeof share, "%.1f%% of all rows", 100.0 * device.hotShare);
    row("hot buffer (what is left)", device.hotBuffer, share);
    row("host tier, in RAM", ram.hostTier, grouped(d.plan.hostBytesPerToken) + " B per token");
    if (ram.checkpoints > 0)
        row("checkpoints, in RAM", ram.checkpoints);
    row("needed of RAM", ram.needed(), ram.fits() ? "fits" : "does not fit");
    row("there", ram.total);
    out << (d.plan.fits() ? "  It fits" : "  It does not fit") << "; with " << request.agents
        << " agents the longest context that fits is " << grouped(d.plan.longestContext) << " tokens\n";
}

Result<void> readRequest(const Arguments& arguments, Findings& findings)
{
    if (arguments.has("--shape")) {
        if (!arguments.positional().empty())
            return Error{ErrorCode::InvalidArgument, "name either a model or --shape, not both"};
        OCTAVO_TRY(const ModelShape shape, modelShape(arguments.text("--shape")));
        findings.shape = shape.name;
        findings.mtpParameters = countParameters(mtpTensors(shape.config));
        findings.parameters = countParameters(textTensors(shape.config, shape.head)) + findings.mtpParameters;
        findings.request.config = shape.config;
        findings.request.weightBytes = int4WeightBytes(shape);
        findings.request.mtp = findings.request.floatHead = true;
        return {};
    }
    if (arguments.positional().size() != 1)
        return Error{ErrorCode::InvalidArgument, "name one model folder, or --shape NAME"};
    OCTAVO_TRY(findings.audit, auditCheckpoint(arguments.positional().front()));
    findings.parameters = findings.audit->parameters;
    findings.mtpParameters = findings.audit->mtpParameters;
    findings.request.config = findings.audit->config;
    findings.request.weightBytes = findings.audit->weightBytes;
    findings.request.mtp = findings.audit->mtp;
    findings.request.floatHead = findings.audit->floatHead;
    return {};
}

Result<void> runDoctor(const Arguments& arguments, Streams& streams)
{
    Findings findings;
    OCTAVO_TRY(const std::int64_t agents, arguments.integer("--agents", 8, 1, 1024));
    OCTAVO_TRY(const std::int64_t context, arguments.integer("--context", 0, 0, 1 << 30));
    OCTAVO_TRY(const double deviceGib, arguments.number("--device-memory", 0.0, 0.0, 1e6));
    OCTAVO_TRY(const double ramGib, arguments.number("--ram", 0.0, 0.0, 1e6));
    OCTAVO_CHECK(readRequest(arguments, findings));
    MemoryPlanRequest& request = findings.request;
    request.agents = int(agents);
    request.contextTokens = context > 0 ? context : std::min<std::int64_t>(250'000, request.config.maxPositions);
    if (request.contextTokens > request.config.maxPositions)
        return Error{ErrorCode::InvalidArgument, "--context is " + std::to_string(context) + ", but the model allows " +
                                                     std::to_string(request.config.maxPositions) + " tokens"};
    if (ramGib > 0.0)
        request.ramBytes = std::int64_t(ramGib * gib);
    else if (const auto memory = availableMemory())
        request.ramBytes = memory->freeBytes;
    findings.devices = planDevices(findings, std::int64_t(deviceGib * gib));

    if (arguments.has("--json")) {
        streams.out << toJson(findings).dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    } else {
        if (findings.audit)
            printAudit(*findings.audit, streams.out);
        else
            streams.out << "Shape       " << findings.shape << ": " << grouped(findings.parameters) << " parameters, "
                        << grouped(findings.mtpParameters) << " of them in MTP; int4 linears assumed\n";
        for (const PlannedDevice& device : findings.devices)
            printPlan(device, request, streams.out);
    }
    if (findings.audit && !findings.audit->problems.empty())
        return Error{ErrorCode::FormatInvalid, findings.audit->problems.front()};
    return {};
}

} // namespace

Command doctorCommand()
{
    return {"doctor",
            "Examines a model folder, or a shape, and says what memory it needs",
            "[MODEL]",
            {{"--shape", "NAME", "qwen3.5-27b, -9b, -4b or -0.8b instead of a model folder"},
             {"--agents", "N", "how many agents at once (default: 8)"},
             {"--context", "N", "tokens that each may hold (default: 250000, or what the model allows)"},
             {"--device-memory", "GIB", "plan for a GPU with this much memory (default: the devices that are here)"},
             {"--ram", "GIB", "plan for this much RAM (default: what this machine has)"},
             jsonOption()},
            runDoctor};
}

} // namespace octavo::cli
