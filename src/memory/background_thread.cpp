// SPDX-License-Identifier: Apache-2.0
#include "memory/background_thread.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/start_thread.hpp"

namespace berth {

struct BackgroundThread::State {
  State(Work todo, std::optional<std::chrono::nanoseconds> interval)
      : work(std::move(todo)), period(interval) {}

  void start_once() {
    if (!thread.joinable())
      thread = start_thread("the background work of an allocator", [this] { run(); });
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      wait_until_due(lock);
      if (ends) return;
      requested = false;
      busy = true;
      lock.unlock();
      work();
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }

  void wait_until_due(std::unique_lock<std::mutex>& lock) {
    const auto is_due = [this] { return ends || requested; };
    if (period)
      changed.wait_for(lock, *period, is_due);
    else
      changed.wait(lock, is_due);
  }

  const Work work;
  const std::optional<std::chrono::nanoseconds> period;
  std::mutex mutex;
  std::condition_variable changed;
  bool requested = false;
  bool busy = false;
  bool ends = false;
  std::thread thread;
};

BackgroundThread::BackgroundThread(Work work, std::optional<std::chrono::nanoseconds> period)
    : state_(std::make_unique<State>(std::move(work), period)) {
  const std::lock_guard lock(state_->mutex);
  if (period) state_->start_once();
}

BackgroundThread::~BackgroundThread() {
  if (!origin_.is_here()) {
    // The destructor of a condition variable waits for its waiters, which do not exist in a forked
    // child.
    keep_until_exit(std::move(state_));
    return;
  }
  end();
}

void BackgroundThread::end() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

bool BackgroundThread::is_ending() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ends;
}

void BackgroundThread::request() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->start_once();
    if (std::exchange(state_->requested, true)) return;
  }
  state_->changed.notify_all();
}

void BackgroundThread::wait_until_done() {
  if (!origin_.is_here()) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return !state_->requested && !state_->busy; });
}

}  // namespace berth
