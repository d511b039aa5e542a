// SPDX-License-Identifier: Apache-2.0
#include "base/fork.hpp"

#include <atomic>
#include <pthread.h>
#include <string>

#include "berth/error.hpp"

#include "base/check.hpp"

namespace berth {

int ForkOrigin::current_ = 0;

// When the library is loaded: a fork during a first use would leave the child waiting for it.
const bool ForkOrigin::is_prepared_ = [] {
  at_fork(nullptr, nullptr, [] { ++current_; });
  return true;
}();

void ForkOrigin::refuse(std::string_view what) {
  throw NotSupported(
      std::string(what) +
      ": this process was forked from the one that created it, and CUDA does not work in the child "
      "of a process that has initialized it. " +
      std::string(kForkAdvice));
}

void KeptUntilExit::add(KeptUntilExit& kept) noexcept {
  // Not guarded by a lock, which a thread of the parent may hold.
  static constinit std::atomic<const KeptUntilExit*> last = nullptr;
  kept.next = last.load(std::memory_order_relaxed);
  while (!last.compare_exchange_weak(kept.next, &kept, std::memory_order_release)) {
  }
}

void at_fork(void (*prepare)(), void (*parent)(), void (*child)()) {
  BERTH_CHECK(pthread_atfork(prepare, parent, child) == 0);
}

}  // namespace berth
