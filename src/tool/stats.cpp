// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "berth/statistics.hpp"
#include "berth/trace.hpp"

#include "tool/command.hpp"
#include "tool/output.hpp"
#include "tool/progress_bar.hpp"
#include "tool/replay.hpp"
#include "tool/replay_report.hpp"
#include "tool/session.hpp"

namespace berth::tool {
namespace {

struct StatsOptions {
  CommonOptions common;
  std::string trace;
  std::string host_memory;
  std::string moment = "peak";
  std::string device = "cuda";
};

ExitCode print_statistics(const Runtime& runtime, const StatsOptions& options) {
  const Statistics statistics = runtime.statistics();
  if (options.common.json)
    print(to_json(statistics) + "\n");
  else
    print(to_text(statistics));
  if (runtime.driver().usable) return ExitCode::ok;
  print_error(fmt::format("driver {} cannot be used", runtime.driver().name));
  return ExitCode::no_device;
}

/// The statistics while the trace's blocks are live: at its peak, or at its end.
ExitCode print_statistics_of_trace(Runtime& runtime, const StatsOptions& options) {
  const Device device = require_device(runtime, parse_cuda_device(options.device));
  const TraceOptions trace_options = parse_trace_options(options.host_memory);
  const std::vector<ReplayPlan> plans = plan_replay(read_trace(options.trace, trace_options));
  if (plans.size() > 1)
    print_warning(fmt::format("{}: recorded on {} devices; shown is the first, cuda:{}",
                              options.trace, plans.size(), plans.front().device));
  const ReplayPlan& plan = plans.front();
  Replayer replayer(runtime, device, plan, false);
  const std::size_t end =
      options.moment == "end" ? plan.operations.size() : plan.live_peak().operation + 1;
  {
    ProgressBar bar(short_trace_name(plan.trace), end);
    replayer.run_to(end, [&bar](std::size_t done) { bar.update(done); });
  }
  return print_statistics(runtime, options);
}

ExitCode show_statistics(const StatsOptions& options) {
  const auto runtime = make_runtime(options.common);
  if (options.trace.empty()) return print_statistics(*runtime, options);
  return print_statistics_of_trace(*runtime, options);
}

}  // namespace

void add_stats_command(CommandLine& berth) {
  const auto options = std::make_shared<StatsOptions>();
  CommandOptions command = berth.add("stats", "Print the statistics of berth",
                                     [options] { return show_statistics(*options); });
  command.text("--trace", options->trace, "TRACE", "Replay this first, and stop at --at",
               {{}, true});
  add_trace_options(command, options->host_memory);
  command.choice("--at", options->moment, "MOMENT", "peak (of live bytes) or end; default peak",
                 {"peak", "end"});
  command.text("--device", options->device, "DEVICE",
               "Where to replay: cuda or cuda:N; default cuda");
  add_common_options(command, options->common);
  command.footer(
      "Prints driver, devices, allocators, driver calls and copies, as a program that\n"
      "embeds berth gets them from Runtime::statistics(). --trace replays a recorded\n"
      "program up to its peak of live memory, or to its end, and shows the layout of\n"
      "its memory on the device and the part of reserved memory that is in use.\n\n"
      "Examples:\n"
      "  berth stats\n"
      "  berth stats --trace train.csv.gz\n"
      "  berth stats --trace snapshot.pickle --at end --json\n");
}

}  // namespace berth::tool
