// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/statistics.hpp"
#include "berth/trace.hpp"

#include "tool/checked_copies.hpp"
#include "tool/command.hpp"
#include "tool/devices.hpp"
#include "tool/example_trace.hpp"
#include "tool/json_text.hpp"
#include "tool/output.hpp"
#include "tool/progress_bar.hpp"
#include "tool/replay.hpp"
#include "tool/replay_report.hpp"
#include "tool/session.hpp"

namespace berth::tool {
namespace {

struct DemoOptions {
  CommonOptions common;
  std::string trace;  ///< empty: the one that is installed with berth
  std::string host_memory;
};

/// The results of the demo, which are printed as text during the run, or as JSON at the end.
class Demo {
 public:
  explicit Demo(const DemoOptions& options)
      : options_(options),
        trace_options_(parse_trace_options(options.host_memory)),
        runtime_(make_runtime(options.common)) {
    device_ = require_device(*runtime_, Device::cuda());
  }

  ExitCode run() {
    tell(driver_text(*runtime_, options_.common));
    show_devices();
    replay_trace();
    const bool copies_are_right = check_copies();
    show_statistics();
    tell(fmt::format("\n{}", driver_text(*runtime_, options_.common)));
    if (options_.common.json) print(json_text(json_));
    if (copies_are_right) return ExitCode::ok;
    print_error("copies: the target differs from the source");
    return ExitCode::failed;
  }

 private:
  void tell(const std::string& text) const {
    if (!options_.common.json) print(text);
  }

  void show_devices() {
    const DeviceRegistry& devices = runtime_->devices();
    json_["driver"] = runtime_->driver().name;
    json_["devices"] = devices_json(devices);
    tell(fmt::format("\nDevices\n{}", devices_text(devices)));
  }

  void replay_trace() {
    const auto example = options_.trace.empty() ? find_example_trace() : options_.trace;
    json_["replay"] = nullptr;
    if (!example) {
      tell("\nReplay\nskipped: no trace comes with this installation; name one with --trace\n");
      return;
    }
    // The plan of one device; the trace's other devices show nothing new.
    const ReplayPlan plan = plan_replay(read_trace(*example, trace_options_)).front();
    ReplayResult result;
    {
      ReplayOptions replay_options;
      ProgressBar bar(short_trace_name(plan.trace),
                      plan.operations.size() * std::size_t(replay_options.passes));
      replay_options.on_progress = [&bar](std::size_t done) { bar.update(done); };
      result = replay(*runtime_, device_, plan, replay_options);
    }
    json_["replay"] = to_json(result);
    const ReplayTable table(short_trace_name(result.trace).size());
    tell(fmt::format("\nReplay of {} allocations and frees, {} passes\n", result.operations,
                     result.passes) +
         table.header() + table.row(result) + describe_refusals(result));
  }

  bool check_copies() {
    CheckedCopiesOptions options;
    CheckedCopiesResult result;
    {
      ProgressBar bar("copies", options.rounds);
      options.on_progress = [&bar](std::size_t done) { bar.update(done); };
      result = tool::check_copies(*runtime_, options);
    }
    auto& json = json_["copies"];
    json["copies"] = result.copies;
    json["bytes_compared"] = result.bytes_compared;
    json["bytes_different"] = result.bytes_different;
    json["streams"] = result.streams;
    json["streams_pending_peak"] = result.streams_pending_peak;
    tell(
        fmt::format("\nCopies host > device > device > host, pinned and pageable\n"
                    "{} copies of {} on {} streams, up to {} with work pending at once\n"
                    "{} compared byte for byte: {} bytes differ\n",
                    result.copies, format_bytes(options.bytes), result.streams,
                    result.streams_pending_peak, format_bytes(result.bytes_compared),
                    result.bytes_different == 0 ? "no" : fmt::to_string(result.bytes_different)));
    return result.bytes_different == 0;
  }

  void show_statistics() {
    const Statistics statistics = runtime_->statistics();
    json_["statistics"] = nlohmann::ordered_json::parse(to_json(statistics));
    tell(fmt::format("\nStatistics\n{}", to_text(statistics)));
  }

  const DemoOptions& options_;
  TraceOptions trace_options_;
  std::unique_ptr<Runtime> runtime_;
  Device device_;
  nlohmann::ordered_json json_;
};

ExitCode run_demo(const DemoOptions& options) {
  // The latest possible execution of work shows overlap, and reveals every byte that is changed too
  // early.
  setenv("BERTH_SIM", "devices=2,memory=80GiB,progress=manual", 0);
  return Demo(options).run();
}

}  // namespace

void add_demo_command(CommandLine& berth) {
  const auto options = std::make_shared<DemoOptions>();
  CommandOptions command = berth.add("demo", "Show what berth does on this machine, and check it",
                                     [options] { return run_demo(*options); });
  command.text("TRACE,--trace", options->trace, "TRACE",
               "What to replay; default: the first trace that comes\n"
               "with berth",
               {{}, true});
  add_trace_options(command, options->host_memory);
  add_common_options(command, options->common);
  command.footer(
      "Lists the devices, replays a recorded program on the allocator, sends bytes\n"
      "from host to device to device and back on several streams at once, compares\n"
      "every byte, and prints the statistics. Unless BERTH_SIM is set, a simulated\n"
      "driver has two devices of 80 GiB and runs work only when a thread waits for it.\n\n"
      "Examples:\n"
      "  berth demo\n"
      "  berth demo --trace train.csv.gz\n"
      "  berth demo --driver sim --json\n");
}

}  // namespace berth::tool
