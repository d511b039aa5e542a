// SPDX-License-Identifier: Apache-2.0
#include "tool/replay.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include <fmt/format.h>

namespace berth::tool {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

/// Operations between two readings of the clock and two reports of progress.
constexpr std::size_t kBatchOperations = 4096;

/// Costs nothing, but is opaque to the compiler: every argument counts as used, and the result is
/// unknown.
struct NoAllocator {
  void* allocate_raw(std::size_t bytes, StreamRef stream) {
    void* data = this;
    asm volatile("" : "+r"(data) : "r"(bytes), "r"(&stream) : "memory");
    return data;
  }
  void deallocate(void* data) { asm volatile("" : : "r"(data) : "memory"); }
};

/// The timed loop. `on_refused` receives the index of a request that was out of memory.
template <class Memory, class OnRefused>
void run_operations(std::span<const ReplayOperation> operations,
                    const std::vector<StreamRef>& streams, std::vector<void*>& blocks,
                    Memory& memory, const OnRefused& on_refused) {
  for (const ReplayOperation& operation : operations) {
    void*& block = blocks[operation.slot];
    if (operation.allocates) {
      try {
        block = memory.allocate_raw(operation.bytes, streams[operation.stream]);
      } catch (const OutOfMemory&) {
        on_refused(std::size_t(&operation - operations.data()));
      }
    } else {
      memory.deallocate(block);
      block = nullptr;
    }
  }
}

std::vector<DriverCallCount> calls_since(const std::vector<DriverCallCount>& before,
                                         std::vector<DriverCallCount> now) {
  for (DriverCallCount& count : now)
    for (const DriverCallCount& old : before)
      if (old.function == count.function) count.calls -= old.calls;
  std::erase_if(now, [](const DriverCallCount& count) { return count.calls == 0; });
  return now;
}

}  // namespace

Replayer::Replayer(Runtime& runtime, Device device, const ReplayPlan& plan, bool validate)
    : plan_(plan), memory_(runtime.memory(device)), blocks_(plan.slots, nullptr) {
  if (validate) checked_ = std::make_unique<CheckedAllocator>(memory_);
  streams_.push_back(runtime.default_stream(device));
  while (streams_.size() < plan.streams) {
    leases_.push_back(runtime.streams(device).acquire());
    streams_.push_back(leases_.back().ref());
  }
}

Replayer::~Replayer() {
  try {
    for (void* block : blocks_) memory_.deallocate(block);
  } catch (const Error&) {
    // An earlier check has failed, or the free failed; the caller receives the earlier exception.
  }
}

void Replayer::run_to(std::size_t operation, const OnProgress& on_progress) {
  while (position_ < operation) {
    run_batch(std::min(position_ + kBatchOperations, operation));
    if (on_progress) on_progress(position_);
  }
}

void Replayer::run_batch(std::size_t end) {
  const auto operations = std::span(plan_.operations).subspan(position_, end - position_);
  const auto note_refused = [this](std::size_t index) { refused_.push_back(position_ + index); };
  const auto start = Clock::now();
  if (checked_)
    run_operations(operations, streams_, blocks_, *checked_, note_refused);
  else
    run_operations(operations, streams_, blocks_, memory_, note_refused);
  elapsed_ += Clock::now() - start;
  position_ = end;
}

void Replayer::finish_pass() {
  for (void*& block : blocks_) {
    if (checked_)
      checked_->deallocate(block);
    else
      memory_.deallocate(block);
    block = nullptr;
  }
  if (checked_) checked_->check_sums();
  const MemoryCounters counters = memory_.counters();
  if (counters.blocks_allocated.current != 0)
    throw CheckFailure(
        fmt::format("leak: {} blocks of {} bytes are live after everything was freed",
                    counters.blocks_allocated.current, counters.bytes_allocated.current));
  position_ = 0;
  refused_.clear();
  elapsed_ = {};
}

nanoseconds Replayer::measure_loop() {
  auto least = nanoseconds::max();
  for (int run = 0; run < 3; ++run) {
    NoAllocator nothing;
    const auto start = Clock::now();
    run_operations(std::span(plan_.operations), streams_, blocks_, nothing, [](std::size_t) {});
    least = std::min<nanoseconds>(least, Clock::now() - start);
    std::ranges::fill(blocks_, nullptr);
  }
  return least;
}

std::optional<double> ReplayResult::waste() const {
  if (bytes_live_peak == 0) return std::nullopt;
  return double(bytes_reserved_peak) / double(bytes_live_peak) - 1;
}

std::uint64_t total_calls(const std::vector<DriverCallCount>& calls) {
  std::uint64_t total = 0;
  for (const DriverCallCount& count : calls) total += count.calls;
  return total;
}

ReplayResult replay(Runtime& runtime, Device device, const ReplayPlan& plan,
                    const ReplayOptions& options) {
  ReplayResult result;
  result.trace = plan.trace;
  result.trace_device = plan.device;
  result.driver = runtime.driver().name;
  result.device = device.to_string();
  result.passes = options.passes;
  result.operations = plan.operations.size();
  result.allocations = plan.allocations;

  Replayer replayer(runtime, device, plan, options.validate);
  auto fastest = nanoseconds::max();
  std::vector<DriverCallCount> calls_before = runtime.statistics().driver_calls;
  for (int pass = 0; pass < options.passes; ++pass) {
    const std::size_t done_before = std::size_t(pass) * plan.operations.size();
    replayer.run_to(plan.operations.size(), [&](std::size_t done) {
      if (options.on_progress) options.on_progress(done_before + done);
    });
    result.out_of_memory += replayer.refused().size();
    result.bytes_live_peak =
        std::max(result.bytes_live_peak, plan.live_peak(replayer.refused()).bytes);
    if (pass > 0) fastest = std::min(fastest, replayer.elapsed());
    replayer.finish_pass();

    std::vector<DriverCallCount> calls_now = runtime.statistics().driver_calls;
    if (pass == 0) result.driver_calls = calls_since(calls_before, calls_now);
    if (pass > 0 && pass + 1 == options.passes)
      result.driver_calls_steady = calls_since(calls_before, calls_now);
    calls_before = std::move(calls_now);
  }

  const MemoryCounters counters = runtime.memory(device).counters();
  result.bytes_reserved_peak = counters.bytes_reserved.peak;
  result.page_remaps = counters.page_remaps;
  if (options.passes > 1 && !options.validate) {
    const nanoseconds net = std::max(nanoseconds{0}, fastest - replayer.measure_loop());
    result.ns_per_operation = double(net.count()) / double(plan.operations.size());
  }
  return result;
}

}  // namespace berth::tool
