// SPDX-License-Identifier: Apache-2.0
// campaign_replays: recorded programs on berth's allocator, pass by pass: reserved memory beyond
// live memory, the driver calls, the time. Once with idle streams, and with a kernel behind each
// allocation.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/runtime.hpp"

#include "probes/kernels.hpp"
#include "probes/machine.hpp"
#include "probes/rows.hpp"
#include "workloads/replay.hpp"

namespace {

using namespace berth;
using namespace berth::campaign;
using namespace std::chrono_literals;

constexpr int kPasses = 4;

class Replayed {
 public:
  Replayed(const Machine& machine, const Kernels& kernels, const bench::ReplayPlan& plan,
           std::chrono::nanoseconds kernel)
      : machine_(machine), kernels_(kernels), plan_(plan), kernel_(kernel), blocks_(plan.slots) {
    for (std::size_t index = 0; index < plan.streams; ++index)
      streams_.push_back(runtime_.create_stream(Device::cuda(0)));
  }

  void run() {
    for (int pass = 1; pass <= kPasses; ++pass) {
      const std::uint64_t calls_before = driver_calls();
      const std::uint64_t took = nanoseconds_of([this] { run_pass(); });
      const std::uint64_t calls = driver_calls() - calls_before;
      machine_.driver().ctx_synchronize();
      const auto operations = static_cast<double>(plan_.operations.size());
      const MemoryCounters counters = memory_.counters();
      const std::string kernels =
          kernel_ == 0ns ? "idle streams"
                         : fmt::format("kernels of {} us", kernel_ / std::chrono::microseconds(1));
      const double waste = static_cast<double>(counters.bytes_reserved.peak) /
                               static_cast<double>(plan_.bytes_live_peak) -
                           1;
      add_row("replays", fmt::format("{}, {}, pass {}", plan_.name, kernels, pass),
              {{"ns_an_operation", static_cast<double>(took) / operations},
               {"calls_an_operation", static_cast<double>(calls) / operations},
               {"waste_percent", 100 * waste}});
    }
  }

 private:
  void run_pass() {
    for (const auto& [slot, bytes, stream] : plan_.operations) {
      if (bytes == 0) {
        memory_.deallocate(blocks_[slot]);
        continue;
      }
      blocks_[slot] = memory_.allocate_raw(bytes, streams_[stream].ref());
      if (kernel_ > 0ns) kernels_.spin(streams_[stream].ref().native(), kernel_);
    }
  }
  /// Only for berth's allocator.
  [[nodiscard]] std::uint64_t driver_calls() const {
    std::uint64_t calls = 0;
    for (const auto& each : runtime_.statistics().driver_calls) calls += each.calls;
    return calls;
  }

  const Machine& machine_;
  const Kernels& kernels_;
  const bench::ReplayPlan& plan_;
  const std::chrono::nanoseconds kernel_;
  Runtime runtime_;
  DeviceAllocator& memory_ = runtime_.memory(Device::cuda(0));
  std::vector<Stream> streams_;
  std::vector<void*> blocks_;
};

void measure(const Machine& machine) {
  const Time time;
  const Kernels kernels(machine);
  const std::size_t bytes_free = machine.bytes_free();
  for (const bench::ReplayPlan& plan : bench::read_replay_plans()) {
    for (const auto kernel : {0us, 20us}) {
      if (plan.bytes_live_peak > bytes_free - bytes_free / 10) {
        add_row("replays", plan.name,
                {{"skipped", fmt::format("needs {}", format_bytes(plan.bytes_live_peak))}});
        break;
      }
      // Without kernels, each is a host function that sleeps, which takes far longer.
      if (kernel > 0us && !kernels.are_real()) continue;
      if (time.is_over())
        return add_row("replays", "the others", {{"skipped", "no time was left"}});
      attempt("replays", fmt::format("{}, kernels of {} us", plan.name, kernel / 1us),
              [&] { Replayed(machine, kernels, plan, kernel).run(); });
    }
  }
}

}  // namespace

int main() {
  return run_on_machine(measure);
}
