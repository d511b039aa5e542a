// SPDX-License-Identifier: Apache-2.0
#include "memory/background_thread.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "base/condition_variable.hpp"
#include "base/mutex.hpp"
#include "base/start_thread.hpp"

namespace berth {

struct BackgroundThread::State {
  State(Work todo, std::optional<std::chrono::nanoseconds> interval)
      : work(std::move(todo)), period(interval) {}

  void start_once() BERTH_REQUIRES(mutex) {
    if (!ends && !thread.joinable())
      thread = start_thread("the background work of an allocator", [this] { run(); });
  }

  void run() BERTH_EXCLUDES(mutex) {
    while (begin_work()) {
      work();
      end_work();
    }
  }

  /// Waits until work is due; false: there is no more.
  bool begin_work() BERTH_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    wait_until_due();
    if (ends) return false;
    requested = false;
    busy = true;
    return true;
  }
  void end_work() BERTH_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    busy = false;
    changed.notify_all();
  }

  void wait_until_due() BERTH_REQUIRES(mutex) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + period.value_or(std::chrono::nanoseconds::zero());
    while (!ends && !requested && (!period || Clock::now() < end)) {
      if (period)
        changed.wait_until(mutex, end);
      else
        changed.wait(mutex);
    }
  }

  const Work work;
  const std::optional<std::chrono::nanoseconds> period;
  Mutex mutex;
  ConditionVariable changed;
  bool requested BERTH_GUARDED_BY(mutex) = false;
  bool busy BERTH_GUARDED_BY(mutex) = false;
  bool ends BERTH_GUARDED_BY(mutex) = false;
  std::thread thread;  ///< guarded by mutex until ends
};

BackgroundThread::BackgroundThread(Work work, std::optional<std::chrono::nanoseconds> period)
    : state_(std::make_unique<State>(std::move(work), period)) {
  const MutexLock lock(state_->mutex);
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
    const MutexLock lock(state_->mutex);
    state_->ends = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

bool BackgroundThread::is_ending() const {
  const MutexLock lock(state_->mutex);
  return state_->ends;
}

void BackgroundThread::request() {
  {
    const MutexLock lock(state_->mutex);
    state_->start_once();
    if (std::exchange(state_->requested, true)) return;
  }
  state_->changed.notify_all();
}

void BackgroundThread::wait_until_done() {
  if (!origin_.is_here()) return;
  const MutexLock lock(state_->mutex);
  while (!state_->ends && (state_->requested || state_->busy)) state_->changed.wait(state_->mutex);
}

}  // namespace berth
