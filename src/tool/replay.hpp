// SPDX-License-Identifier: Apache-2.0
// Runs the allocations of a recorded program again, on the allocator of one device.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "berth/runtime.hpp"

#include "tool/checked_allocator.hpp"
#include "tool/replay_plan.hpp"

namespace berth::tool {

/// Steps through a plan. The program's default stream is the device's legacy default stream; its
/// other streams are pooled streams, leased as long as the Replayer exists. No work is launched on
/// them, so they are always idle.
///
/// The Runtime and the plan must outlive it. One thread.
class Replayer {
 public:
  /// `validate` checks every operation (CheckedAllocator).
  /// Errors  InvalidArgument: no such device.
  Replayer(Runtime& runtime, Device device, const ReplayPlan& plan, bool validate);
  /// Frees the live blocks.
  ~Replayer();
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  /// Called every few thousand operations with the next operation of the pass.
  using OnProgress = std::function<void(std::size_t operation)>;

  /// Executes the plan up to `operation`, exclusive. refused() has the requests that the allocator
  /// refuses as out of memory; their frees have no effect. `on_progress` may be empty.
  /// Errors  CheckFailure, DriverError.
  void run_to(std::size_t operation, const OnProgress& on_progress = nullptr);
  /// Frees every block that the plan leaves live, and returns to the plan's start.
  /// Errors  CheckFailure: the allocator holds a block that should be free ("leak").
  void finish_pass();

  /// Operations of this pass whose requests were refused.
  [[nodiscard]] const std::vector<std::size_t>& refused() const { return refused_; }
  /// Time spent in run_to() during this pass, without progress reports.
  [[nodiscard]] std::chrono::nanoseconds elapsed() const { return elapsed_; }

  /// The cost of the replaying loop itself for the whole plan: the same loop over the same
  /// operations, with an allocator without effect. The minimum of three runs. Only between passes.
  [[nodiscard]] std::chrono::nanoseconds measure_loop();

 private:
  void run_batch(std::size_t end);

  const ReplayPlan& plan_;
  DeviceAllocator& memory_;
  std::unique_ptr<CheckedAllocator> checked_;
  std::vector<StreamLease> leases_;
  std::vector<StreamRef> streams_;
  std::vector<void*> blocks_;
  std::size_t position_ = 0;
  std::vector<std::size_t> refused_;
  std::chrono::nanoseconds elapsed_{};
};

struct ReplayOptions {
  int passes = 4;         ///< 1 or more
  bool validate = false;  ///< check after every operation; no time is measured then
  /// Receives the number of operations done, of all passes. May be empty.
  Replayer::OnProgress on_progress = nullptr;
};

struct ReplayResult {
  std::string trace;
  std::int32_t trace_device = 0;
  std::string driver;
  std::string device;
  int passes = 0;
  std::size_t operations = 0;                 ///< allocations and frees of one pass, as recorded
  std::size_t allocations = 0;                ///< of them, those that allocate
  std::uint64_t bytes_live_peak = 0;          ///< as requested, counted by the replay itself
  std::uint64_t bytes_reserved_peak = 0;      ///< obtained from the driver, in all passes
  std::vector<DriverCallCount> driver_calls;  ///< of the first pass
  /// Of the last pass, which should be in steady state; nullopt if it was the first.
  std::optional<std::vector<DriverCallCount>> driver_calls_steady;
  /// Of the fastest pass except the first, less the loop's own cost; nullopt if not measured.
  std::optional<double> ns_per_operation;
  std::uint64_t out_of_memory = 0;  ///< requests refused, in all passes
  std::uint64_t page_remaps = 0;    ///< in all passes

  /// Peak reserved / peak live - 1; nullopt if no bytes were live.
  [[nodiscard]] std::optional<double> waste() const;
};

std::uint64_t total_calls(const std::vector<DriverCallCount>& calls);

/// Runs all passes. The device's allocator must be unused before: its counters are the result.
/// Errors  As Replayer.
ReplayResult replay(Runtime& runtime, Device device, const ReplayPlan& plan,
                    const ReplayOptions& options = {});

}  // namespace berth::tool
