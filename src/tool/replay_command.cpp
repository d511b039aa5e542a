// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <new>
#include <optional>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"
#include "berth/trace.hpp"

#include "tool/command.hpp"
#include "tool/json_text.hpp"
#include "tool/output.hpp"
#include "tool/printable.hpp"
#include "tool/progress_bar.hpp"
#include "tool/replay.hpp"
#include "tool/replay_report.hpp"
#include "tool/session.hpp"

namespace berth::tool {
namespace {

struct ReplayCommandOptions {
  CommonOptions common;
  std::vector<std::string> traces;
  int passes = 4;
  bool validate = false;
  std::string limit;
  std::string host_memory;
  bool no_virtual_memory = false;
  std::string device = "cuda";
};

/// The settings of a replay.
struct ReplaySetup {
  TraceOptions trace;
  RuntimeOptions runtime;
  Device device = Device::cuda();
};

ReplaySetup check_options(const ReplayCommandOptions& options) {
  ReplaySetup setup;
  setup.device = parse_cuda_device(options.device);
  setup.trace = parse_trace_options(options.host_memory);
  setup.runtime = options_from_environment();
  if (options.no_virtual_memory) setup.runtime.device_allocator.virtual_memory = false;
  if (!options.limit.empty())
    setup.runtime.device_allocator.limits.bytes_reserved_max =
        parse_option("--limit", options.limit, parse_bytes);
  return setup;
}

ReplayResult replay_plan(const ReplayPlan& plan, const ReplayCommandOptions& options,
                         const ReplaySetup& setup) {
  const auto runtime = make_runtime(options.common, setup.runtime);
  const Device device = require_device(*runtime, setup.device);
  ProgressBar bar(short_trace_name(plan.trace),
                  plan.operations.size() * std::size_t(options.passes));
  ReplayOptions replay_options;
  replay_options.passes = options.passes;
  replay_options.validate = options.validate;
  replay_options.on_progress = [&bar](std::size_t done) { bar.update(done); };
  return replay(*runtime, device, plan, replay_options);
}

std::string describe_failure(const std::exception& error) {
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return no_memory ? "the host has no memory left for this" : error.what();
}

/// Replays all traces, even if some fail. Passes the plans of each trace to `on_plans`, the results
/// to `on_result` and the failures to `on_failure`, and returns the exit code. Errors of a file
/// name the file; errors of a replay do not.
template <class OnPlans, class OnResult, class OnFailure>
ExitCode replay_all(const ReplayCommandOptions& options, const ReplaySetup& setup,
                    const OnPlans& on_plans, const OnResult& on_result,
                    const OnFailure& on_failure) {
  ExitCode exit_code = ExitCode::ok;
  for (const std::string& path : options.traces) {
    bool is_read = false;
    try {
      const std::vector<ReplayPlan> plans = plan_replay(read_trace(path, setup.trace));
      is_read = true;
      on_plans(plans);
      for (const ReplayPlan& plan : plans) on_result(replay_plan(plan, options, setup));
    } catch (const OutputClosed&) {
      throw;
    } catch (const std::exception& error) {
      exit_code = ExitCode::failed;
      const std::string message = describe_failure(error);
      const bool named = !is_read && dynamic_cast<const InvalidArgument*>(&error) != nullptr;
      print_error(named ? message : printable(path) + ": " + message);
      on_failure(path, message);
    }
  }
  return exit_code;
}

ExitCode replay_to_json(const ReplayCommandOptions& options, const ReplaySetup& setup) {
  auto list = nlohmann::ordered_json::array();
  const ExitCode exit_code = replay_all(
      options, setup, [](const std::vector<ReplayPlan>&) {},
      [&](const ReplayResult& result) { list.push_back(to_json(result)); },
      [&](const std::string& path, const std::string& message) {
        list.push_back({{"trace", path}, {"error", message}});
      });
  print(json_text(list));
  return exit_code;
}

std::size_t widest_name(const std::vector<ReplayPlan>& plans) {
  std::size_t width = 0;
  for (const ReplayPlan& plan : plans)
    width = std::max(width, row_name(plan.trace, plan.device).size());
  return width;
}

ExitCode replay_to_text(const ReplayCommandOptions& options, const ReplaySetup& setup) {
  std::size_t name_width = std::string_view("trace").size();
  for (const std::string& path : options.traces)
    name_width = std::max(name_width, short_trace_name(path).size());
  ReplayTable table(name_width);
  bool has_header = false;

  std::vector<ReplayResult> results;
  const ExitCode exit_code = replay_all(
      options, setup,
      // Traces are read one by one; one with longer names, as of several devices, gets a new table.
      [&](const std::vector<ReplayPlan>& plans) {
        const std::size_t width = widest_name(plans);
        if (width <= table.name_width()) return;
        table = ReplayTable(width);
        has_header = false;
      },
      [&](ReplayResult result) {
        if (!has_header) print(fmt::format("\n{}", table.header()));
        has_header = true;
        print(table.row(result));
        results.push_back(std::move(result));
      },
      [](const std::string&, const std::string&) {});
  if (!results.empty()) print(fmt::format("\n{}", summarize(results)));
  return exit_code;
}

ExitCode replay_traces(const ReplayCommandOptions& options) {
  const ReplaySetup setup = check_options(options);
  {
    // A missing driver or device is reported once, not for each trace.
    const auto runtime = make_runtime(options.common, setup.runtime);
    const Device device = require_device(*runtime, setup.device);
    if (!options.common.json)
      print(
          fmt::format("{}device: {}\n", driver_text(*runtime, options.common), device.to_string()));
  }
  return options.common.json ? replay_to_json(options, setup) : replay_to_text(options, setup);
}

constexpr const char* kReplayHelp =
    R"(Each trace is replayed on an allocator of its own. Blocks are allocated on the
stream that the trace names (0 is the legacy default stream) and freed where the
recorded program could reuse them: at `free`, at `free_completed`, and at
`free_requested` where the trace has no `free_completed` for the block. At the
end of a pass everything is freed. A trace of several devices is replayed one
device after the other, all on --device. A request that is refused as out of
memory is counted, and its free is skipped. Nothing is launched on the streams:
they are always idle.

Columns and JSON fields:
  live      bytes_live_peak: most bytes live at once, as asked for
  reserved  bytes_reserved_peak: most bytes obtained from the driver
  waste     reserved / live - 1; >999% if live is tiny beside a segment
  calls     driver_calls: calls to the driver in the first pass
  steady    driver_calls_steady: calls in the last pass
  ns/op     ns_per_operation: time of an allocation or a free in the fastest
            pass but the first, the replaying loop deducted. On the simulated
            driver it is good for comparing, and says nothing about a GPU.

Examples:
  berth replay train.csv.gz
  berth replay --json --passes 10 traces/*.csv
  berth replay --validate --limit 8GiB snapshot.pickle
  BERTH_SIM=memory=80GiB berth replay --driver sim train.csv.gz
)";

}  // namespace

void add_replay_command(CommandLine& berth) {
  const auto options = std::make_shared<ReplayCommandOptions>();
  CommandOptions command = berth.add("replay", "Replay recorded allocations, and measure waste",
                                     [options] { return replay_traces(*options); });
  command.files("TRACE", options->traces,
                "Traces in berth's format, or PyTorch memory snapshots,\n"
                "plain or gzip");
  command.count("--passes", options->passes, 1000, "Number of passes, 1 to 1000; default 4");
  command.flag("--validate", options->validate,
               "Check every block and counter after every operation");
  command.text("--limit", options->limit, "BYTES", "Reserve at most this much, such as 8GiB");
  add_trace_options(command, options->host_memory);
  command.flag("--no-virtual-memory", options->no_virtual_memory,
               "Segments from cuMemAlloc, as devices without it need");
  command.text("--device", options->device, "DEVICE", "cuda or cuda:N; default cuda");
  add_common_options(command, options->common);
  command.footer(kReplayHelp);
}

}  // namespace berth::tool
