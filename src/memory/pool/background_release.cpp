// SPDX-License-Identifier: Apache-2.0
#include "memory/pool/background_release.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace berth {

struct BackgroundRelease::Thread {
  Thread(std::chrono::nanoseconds period, std::function<void()> release)
      : thread([this, period, release = std::move(release)] { run(period, release); }) {}
  ~Thread() {
    {
      const std::lock_guard lock(mutex);
      ends = true;
    }
    ended.notify_one();
    thread.join();
  }

  void run(std::chrono::nanoseconds period, const std::function<void()>& release) {
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, period, [this] { return ends; })) {
      lock.unlock();
      release();
      lock.lock();
    }
  }

  std::mutex mutex;
  std::condition_variable ended;
  bool ends = false;
  std::thread thread;
};

BackgroundRelease::BackgroundRelease(std::chrono::nanoseconds period, std::function<void()> release)
    : thread_(std::make_unique<Thread>(period, std::move(release))) {}

BackgroundRelease::~BackgroundRelease() {
  // The end of a condition variable waits for its waiters, which a forked child does not have.
  if (!origin_.is_here()) keep_until_exit(std::move(thread_));
}

}  // namespace berth
