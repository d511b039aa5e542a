// SPDX-License-Identifier: Apache-2.0
#include "memory/pinned/background_growth.hpp"

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace berth {

struct BackgroundGrowth::Thread {
  explicit Thread(Work todo) : work(std::move(todo)) {}

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return ends || !requested.empty(); });
      if (ends) return;
      const std::size_t number = *requested.begin();
      requested.erase(requested.begin());
      busy = true;
      lock.unlock();
      work(number);
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }

  const Work work;
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::size_t> requested;
  bool busy = false;
  bool ends = false;
  std::thread thread;  ///< from the first request on
};

BackgroundGrowth::BackgroundGrowth(Work work)
    : thread_(std::make_unique<Thread>(std::move(work))) {}

BackgroundGrowth::~BackgroundGrowth() {
  if (!origin_.is_here()) {
    // The end of a condition variable waits for its waiters, which a forked child does not have.
    keep_until_exit(std::move(thread_));
    return;
  }
  end();
}

void BackgroundGrowth::end() {
  {
    const std::lock_guard lock(thread_->mutex);
    thread_->ends = true;
  }
  thread_->changed.notify_all();
  if (thread_->thread.joinable()) thread_->thread.join();
}

bool BackgroundGrowth::ends() const {
  const std::lock_guard lock(thread_->mutex);
  return thread_->ends;
}

void BackgroundGrowth::request(std::size_t number) {
  Thread& thread = *thread_;
  {
    const std::lock_guard lock(thread.mutex);
    if (!thread.thread.joinable()) thread.thread = std::thread([&thread] { thread.run(); });
    if (!thread.requested.insert(number).second) return;
  }
  thread.changed.notify_all();
}

void BackgroundGrowth::wait_until_done() {
  if (!origin_.is_here()) return;
  std::unique_lock lock(thread_->mutex);
  thread_->changed.wait(lock, [this] { return thread_->requested.empty() && !thread_->busy; });
}

}  // namespace berth
