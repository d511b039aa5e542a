// SPDX-License-Identifier: Apache-2.0
#include "sim/check/skipped_launches.hpp"

#include <bit>
#include <cstdlib>

#include "sim/lock.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

// If another thread keeps the lock, the last power of two remains.
void tell_at_exit() {
  if (!mutex.try_lock()) return;
  if (State* const state = installed_state()) state->skipped_launches.tell(true);
  mutex.unlock();
}

}  // namespace

// Counts reported in between remain if the process is killed.
void SkippedLaunches::add() {
  if (!alone_) return;
  if (const pid_t own = getpid(); process_ != own) {
    static_cast<void>(process_ != 0 || std::atexit(&tell_at_exit) == 0);
    process_ = own;
    count_ = 0;
  }
  ++count_;
  if (std::has_single_bit(count_)) tell(false);
}

void SkippedLaunches::tell(bool is_final) {
  if (count_ != 0 && process_ == getpid()) findings_.note_skipped_launches(count_, is_final);
}

}  // namespace berth::sim
