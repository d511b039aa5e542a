// SPDX-License-Identifier: Apache-2.0
// The thread that queries the driver about pending copies. A failed device writes no progress
// words, and its failure is visible only to a query. The rate of queries does not depend on the
// number of pending copies. A query may block behind another thread that waits inside the driver;
// nothing waits for this thread to open a gate. It also releases the owners of complete copies,
// whose destructors may block in the same way.
#pragma once

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/stoppable_thread.hpp"
#include "copy/staged/host_work.hpp"
#include "driver/driver.hpp"

namespace berth {

/// Threads  Safe from any thread.
class DeviceWatch {
 public:
  /// Time between two rounds. A failed device is detected within one period for each
  /// kStreamsPerRound streams with copies.
  static constexpr std::chrono::milliseconds kPeriod{20};
  static constexpr std::size_t kRoundsPerSecond = std::chrono::seconds(1) / kPeriod;
  /// Streams that a round queries for each HostWork.
  static constexpr std::size_t kStreamsPerRound = 2;

  /// Starts no thread.
  explicit DeviceWatch(std::vector<HostWork*> works) : works_(std::move(works)) {}

  /// Starts the thread once. False if the system cannot create it.
  bool start(const Driver& driver) noexcept BERTH_EXCLUDES(thread_.mutex);
  /// A copy has become pending.
  void wake() noexcept BERTH_EXCLUDES(thread_.mutex);
  /// A complete copy has an owner to release, which does not wait for the next round.
  void wake_for_owner() noexcept BERTH_EXCLUDES(thread_.mutex);

 private:
  void run(const Driver& driver) BERTH_EXCLUDES(thread_.mutex);
  using Time = std::chrono::steady_clock::time_point;
  /// Sleeps until the next round, or until there is an owner to release; false at the end.
  bool sleep(Time next_round) BERTH_EXCLUDES(thread_.mutex);
  [[nodiscard]] bool has_copies() const;

  const std::vector<HostWork*> works_;
  bool woken_ BERTH_GUARDED_BY(thread_.mutex) = false;
  bool has_owner_ BERTH_GUARDED_BY(thread_.mutex) = false;
  StoppableThread thread_;
};

}  // namespace berth
