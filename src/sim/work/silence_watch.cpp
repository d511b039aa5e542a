// SPDX-License-Identifier: Apache-2.0
#include "sim/work/silence_watch.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <system_error>

#include "sim/graph/user_object.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

/// The program destroys what its host functions use.
constinit std::atomic<bool> process_ends = false;

void note_process_end() {
  process_ends.store(true, std::memory_order_relaxed);
}

}  // namespace

void SilenceWatch::start() {
  if (!thread_.joinable()) {
    // Called before the destructors of objects that exist now.
    static_cast<void>(std::atexit(&note_process_end));
    try {
      thread_ = std::thread([this] { loop(); });
    } catch (const std::system_error&) {
      return;  // later work tries again
    }
  }
  rests_ = false;
  wake_.notify_one();
}

void SilenceWatch::stop() {
  {
    MutexLock lock(mutex);
    stopping_ = true;
    rests_ = false;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void SilenceWatch::loop() {
  PollInterval interval;
  MutexLock lock(mutex);
  while (!stopping_) {
    if (process_ends.load(std::memory_order_relaxed)) {
      rest();  // and does not end, because no thread joins it
    } else if (!is_silent()) {
      wake_.wait_for(mutex, look_);
    } else if (scheduler_.is_idle()) {
      rest();
    } else {
      run();
      if (!stopping_) wake_.wait_for(mutex, interval.next(scheduler_.steps()));
    }
  }
}

void SilenceWatch::rest() {
  rests_ = true;
  while (rests_) wake_.wait(mutex);
}

bool SilenceWatch::is_called() const {
  return scheduler_.requests() != requests_ || scheduler_.is_in_call();
}

bool SilenceWatch::is_silent() {
  quiet_looks_ = is_called() ? 0 : std::min(quiet_looks_ + 1, kLooks);
  requests_ = scheduler_.requests();
  return quiet_looks_ == kLooks;
}

void SilenceWatch::run() {
  bool has_run = true;
  while (has_run && !is_called() && !stopping_ && !process_ends.load(std::memory_order_relaxed)) {
    has_run = scheduler_.run_one();
    mutex.unlock();  // a call goes first
    mutex.lock();
  }
  if (!state_.held_until.empty()) release_completed(state_);
  Stream* const blocked = has_run || is_called() ? nullptr : scheduler_.blocked_wait();
  const bool lasts = stall_.lasts(blocked != nullptr, scheduler_.steps(), state_.config.stall_ms);
  if (lasts) scheduler_.report_silence(*blocked);
}

}  // namespace berth::sim
