// SPDX-License-Identifier: Apache-2.0
#include "sim/check/process_count.hpp"

#include <bit>
#include <cstdlib>

namespace berth::sim {

bool ProcessCount::watch_exit() {
  if (!findings_.alone()) return false;
  if (const pid_t own = getpid(); process_ != own) {
    static_cast<void>(process_ != 0 || std::atexit(at_exit_) == 0);
    process_ = own;
    count_ = 0;
  }
  return true;
}

bool ProcessCount::add() {
  if (!watch_exit()) return false;
  ++count_;
  if (std::has_single_bit(count_)) tell(false);
  return count_ == 1;
}

void ProcessCount::tell(bool is_final) {
  if (count_ != 0 && process_ == getpid()) (findings_.*report_)(count_, is_final);
}

}  // namespace berth::sim
