// SPDX-License-Identifier: Apache-2.0
#include "memory/background_thread.hpp"

#include <chrono>
#include <utility>

#include "base/stoppable_thread.hpp"

namespace berth {

struct BackgroundThread::State {
  State(Work todo, std::optional<std::chrono::nanoseconds> interval)
      : work(std::move(todo)), period(interval) {}

  void start() BERTH_REQUIRES(thread.mutex) {
    thread.start("the background work of an allocator", [this] { run(); });
  }

  void run() BERTH_EXCLUDES(thread.mutex) {
    while (begin_work()) {
      work();
      end_work();
    }
  }

  /// Waits until work is due; false: there is no more.
  bool begin_work() BERTH_EXCLUDES(thread.mutex) {
    const MutexLock lock(thread.mutex);
    wait_until_due();
    if (thread.is_ending()) return false;
    requested = false;
    busy = true;
    return true;
  }
  void end_work() BERTH_EXCLUDES(thread.mutex) {
    const MutexLock lock(thread.mutex);
    busy = false;
    thread.changed.notify_all();
  }

  void wait_until_due() BERTH_REQUIRES(thread.mutex) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + period.value_or(std::chrono::nanoseconds::zero());
    while (!thread.is_ending() && !requested && (!period || Clock::now() < end)) {
      if (period)
        thread.changed.wait_until(thread.mutex, end);
      else
        thread.changed.wait(thread.mutex);
    }
  }

  const Work work;
  const std::optional<std::chrono::nanoseconds> period;
  bool requested BERTH_GUARDED_BY(thread.mutex) = false;
  bool busy BERTH_GUARDED_BY(thread.mutex) = false;
  StoppableThread thread;
};

BackgroundThread::BackgroundThread(Work work, std::optional<std::chrono::nanoseconds> period)
    : state_(std::make_unique<State>(std::move(work), period)) {
  const MutexLock lock(state_->thread.mutex);
  if (period) state_->start();
}

BackgroundThread::~BackgroundThread() {
  if (!origin_.is_here()) {
    // The destructor of a condition variable waits for its waiters, which do not exist in a forked
    // child.
    keep_until_exit(std::move(state_));
    return;
  }
  end();  // before state_ goes, which the work may use through is_ending()
}

void BackgroundThread::end() {
  state_->thread.end();
}

bool BackgroundThread::is_ending() const {
  const MutexLock lock(state_->thread.mutex);
  return state_->thread.is_ending();
}

void BackgroundThread::request() {
  {
    const MutexLock lock(state_->thread.mutex);
    state_->start();
    if (std::exchange(state_->requested, true)) return;
  }
  state_->thread.changed.notify_all();
}

void BackgroundThread::wait_until_done() {
  if (!origin_.is_here()) return;
  const MutexLock lock(state_->thread.mutex);
  while (!state_->thread.is_ending() && (state_->requested || state_->busy))
    state_->thread.changed.wait(state_->thread.mutex);
}

}  // namespace berth
