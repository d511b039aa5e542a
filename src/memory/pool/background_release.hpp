// SPDX-License-Identifier: Apache-2.0
// A thread that periodically returns unused memory to the driver.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

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
  struct Thread;

  const ForkOrigin origin_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace berth
