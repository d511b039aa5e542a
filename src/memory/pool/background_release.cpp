// SPDX-License-Identifier: Apache-2.0
#include "memory/pool/background_release.hpp"

#include <utility>

namespace berth {

BackgroundRelease::BackgroundRelease(std::chrono::nanoseconds period, std::function<void()> release)
    : period_(period), release_(std::move(release)), thread_([this] { run(); }) {}

BackgroundRelease::~BackgroundRelease() {
  if (!origin_.is_here()) {
    thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void BackgroundRelease::run() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, period_, [this] { return ends_; })) {
    lock.unlock();
    release_();
    lock.lock();
  }
}

}  // namespace berth
