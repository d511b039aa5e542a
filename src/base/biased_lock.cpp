// SPDX-License-Identifier: Apache-2.0
#include "base/biased_lock.hpp"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.hpp"

namespace berth {
namespace {

long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

}  // namespace

bool BiasedLock::is_available() {
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return registered;
}

void BiasedLock::fence() {
  BERTH_CHECK(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0);
}

void BiasedLock::wait_until_left() const {
  // A few instructions for an owner that runs; one that was interrupted gets the processor.
  while (inside_.load(std::memory_order_acquire)) sched_yield();
}

}  // namespace berth
