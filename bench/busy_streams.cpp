// SPDX-License-Identifier: Apache-2.0
// Measures the memory and the driver calls of an allocator while work is pending on its streams. A
// separate program instead of a mode of `berth replay`, which uses public headers only: work of a
// given length in virtual time requires the simulator. docs/benchmarks.md, "Busy streams",
// describes the measurement.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "berth/device_allocator.hpp"
#include "berth/trace.hpp"

#include "peers/allocators.hpp"
#include "workloads/busy_program.hpp"
#include "workloads/busy_replay.hpp"
#include "workloads/busy_report.hpp"
#include "workloads/synthetic_traces.hpp"

namespace berth::bench {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitLeftOut = 77;

const std::map<std::string, OtherUses> kOtherUses = {{"none", OtherUses::none},
                                                     {"record_stream", OtherUses::record_stream},
                                                     {"record_use", OtherUses::record_use}};
const std::map<std::string, CrossStreamReuse> kReuses = {
    {"never", CrossStreamReuse::never},
    {"when_idle", CrossStreamReuse::when_idle},
    {"behind_waits", CrossStreamReuse::behind_waits},
    {"before_growth", CrossStreamReuse::before_growth}};

struct Arguments {
  std::vector<std::string> traces;
  std::uint64_t kernel_us = 0;
  BusyOptions busy;
  std::string allocator = BerthAllocator::kName;
  DeviceAllocatorOptions berth;
  bool json = false;
};

using Measure = std::function<BusyFigures(const BusyProgram&, const Arguments&)>;

/// The available allocators, by name.
std::map<std::string, Measure> allocators() {
  std::map<std::string, Measure> found;
  for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
    if constexpr (std::is_same_v<Allocator, BerthAllocator>)
      found[Allocator::kName] = [](const BusyProgram& program, const Arguments& arguments) {
        return measure_busy<BerthAllocator>(program, arguments.busy, arguments.berth);
      };
    else if constexpr (Allocator::kCallsDriver)
      found[Allocator::kName] = [](const BusyProgram& program, const Arguments& arguments) {
        if (!RecordsUses<Allocator> && arguments.busy.other_uses != OtherUses::none)
          throw std::runtime_error(std::string(Allocator::kName) +
                                   " records no uses; accepted: --uses none");
        return measure_busy<Allocator>(program, arguments.busy);
      };
  });
  return found;
}

/// Reads a file, or one of synthetic_traces() by its name.
Trace trace_of(const std::string& argument) {
  for (const SyntheticTrace& synthetic : synthetic_traces())
    if (synthetic.name == argument) return synthetic.make();
  return read_trace(argument);
}

/// Prints a line with the trace and the message.
void print_error(const std::string& trace, const std::string& message) {
  const bool is_named = message.find(trace) != message.npos;
  std::fprintf(stderr, "busy_streams: error: %s%s\n", is_named ? "" : (trace + ": ").c_str(),
               message.c_str());
}

int run(const Arguments& arguments, const Measure& measure) {
  int exit_status = 0;
  auto list = nlohmann::ordered_json::array();
  if (!arguments.json) fmt::print("{}", busy_header());
  for (const std::string& trace : arguments.traces) {
    try {
      const BusyProgram program(trace_of(trace), arguments.busy);
      const BusyFigures figures = measure(program, arguments);
      if (arguments.json)
        list.push_back(to_json(figures));
      else
        fmt::print("{}", busy_row(figures));
      std::fflush(stdout);
    } catch (const std::exception& error) {
      exit_status = kExitFailed;
      print_error(trace, error.what());
    }
  }
  if (arguments.json) fmt::print("{}\n", list.dump(2));
  return exit_status;
}

std::string names_of_synthetic_traces() {
  std::string names;
  for (const SyntheticTrace& synthetic : synthetic_traces()) names += " " + synthetic.name;
  return names;
}

int parse_and_run(int argc, char** argv) {
  Arguments arguments;
  BusyOptions& busy = arguments.busy;
  CLI::App app("Replays allocation traces while work is pending on the streams.", "busy_streams");
  app.add_option("TRACE", arguments.traces,
                 "Files, or programs of this one's own:" + names_of_synthetic_traces())
      ->required();
  app.add_option(
         "--kernel-us", arguments.kernel_us,
         "Each allocation queues a kernel of so long, 0 to 1000000; default 0, idle streams")
      ->check(CLI::Range(0, 1'000'000));
  app.add_flag("--dependencies", busy.dependencies, "Streams wait for each other");
  app.add_option("--uses", busy.other_uses,
                 "Uses by other streams: none, record_stream (the default), record_use")
      ->transform(CLI::CheckedTransformer(kOtherUses));
  app.add_flag("--persist", busy.persist, "A part of each pass' blocks stays for the next pass");
  app.add_flag("--sync", busy.sync, "Each pass ends with a wait for all its work");
  app.add_option("--threads", busy.threads, "1, or 2 that take turns")->check(CLI::Range(1, 2));
  app.add_option("--passes", busy.passes, "1 to 1000; default 10")->check(CLI::Range(1, 1000));
  app.add_option("--seed", busy.seed, "Of dependencies, turns and what persists; default 1");
  app.add_option("--queue", busy.queue_entries,
                 "Operations that a stream holds before a call blocks; default 0: any number")
      ->check(CLI::Range(0, 1 << 20));
  app.add_flag("--checks", busy.checks, "The simulator looks for races; times mean nothing then");
  app.add_option("--allocator", arguments.allocator, "berth, or a peer that is there");
  app.add_option("--reuse", arguments.berth.cross_stream_reuse,
                 "berth's: never, when_idle, behind_waits (the default), before_growth")
      ->transform(CLI::CheckedTransformer(kReuses));
  app.add_flag("--json", arguments.json, "Every pass and counter, as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "busy_streams: error: %s; see --help\n", error.what());
    return kExitUsage;
  }
  busy.kernel_ns = arguments.kernel_us * 1000;
  const auto measures = allocators();
  const auto measure = measures.find(arguments.allocator);
  if (measure == measures.end()) {
    std::string names;
    for (const auto& [name, found] : measures) names += " " + name;
    std::fprintf(stderr, "busy_streams: error: --allocator: %s is not there; accepted:%s\n",
                 arguments.allocator.c_str(), names.c_str());
    return kExitUsage;
  }
  const char* driver = std::getenv("BERTH_DRIVER");
  if (driver != nullptr && std::string_view(driver) != "sim") {
    std::fprintf(stderr,
                 "busy_streams: error: BERTH_DRIVER names %s; accepted: sim, since the length of "
                 "work is the simulator's to give\n",
                 driver);
    return kExitLeftOut;
  }
  return run(arguments, measure->second);
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  return berth::bench::parse_and_run(argc, argv);
}
