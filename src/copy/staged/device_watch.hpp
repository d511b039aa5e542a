// SPDX-License-Identifier: Apache-2.0
// The thread that asks the driver whether the devices still work on the copies under way: a device
// that has failed writes no word, and says so only when it is queried. It asks seldom, and about
// few copies at a time, however many are pending. The driver may make it wait, behind a thread that
// blocks inside of a driver call; it opens no gate, so nothing waits for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "copy/staged/host_work.hpp"
#include "driver/driver.hpp"

namespace berth {

/// Threads  Safe from any thread.
class DeviceWatch {
 public:
  /// Rounds of questions: how long a failed device may go unseen, for each kStreamsOfRound streams
  /// with copies.
  static constexpr std::chrono::milliseconds kPeriod{20};
  static constexpr std::size_t kRoundsOfSecond = std::chrono::seconds(1) / kPeriod;
  /// Streams that a round asks about, of each HostWork.
  static constexpr std::size_t kStreamsOfRound = 2;

  /// Starts no thread.
  explicit DeviceWatch(std::vector<HostWork*> works) : works_(std::move(works)) {}
  /// In a forked child there is no thread to end.
  ~DeviceWatch();
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;

  /// It watches from now on. False where the system has no thread for it.
  bool start(const Driver& driver) noexcept BERTH_EXCLUDES(mutex_);
  /// Something is under way that may have been not before.
  void wake() noexcept BERTH_EXCLUDES(mutex_);

 private:
  void run(const Driver& driver) BERTH_EXCLUDES(mutex_);
  /// Sleeps until the next round; false where it is to end.
  bool sleep() BERTH_EXCLUDES(mutex_);
  [[nodiscard]] bool has_copies() const;

  const std::vector<HostWork*> works_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool started_ BERTH_GUARDED_BY(mutex_) = false;
  bool woken_ BERTH_GUARDED_BY(mutex_) = false;
  bool stopped_ BERTH_GUARDED_BY(mutex_) = false;
  std::thread thread_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
