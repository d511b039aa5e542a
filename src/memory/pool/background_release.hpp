// SPDX-License-Identifier: Apache-2.0
// A thread that gives back from time to time what is not needed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/fork.hpp"

namespace berth {

class BackgroundRelease {
 public:
  /// Calls release() every `period`, on a thread of its own.
  BackgroundRelease(std::chrono::nanoseconds period, std::function<void()> release);
  /// Blocking  While release() runs. Not in a forked child, which has no such thread.
  ~BackgroundRelease();
  BackgroundRelease(const BackgroundRelease&) = delete;
  BackgroundRelease& operator=(const BackgroundRelease&) = delete;

 private:
  void run();

  const std::chrono::nanoseconds period_;
  const std::function<void()> release_;
  const ForkOrigin origin_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace berth
