// SPDX-License-Identifier: Apache-2.0
#include "base/fork.hpp"

#include <pthread.h>

#include "base/check.hpp"

namespace berth {

int ForkOrigin::current_ = 0;

ForkOrigin::ForkOrigin() : generation_(current_) {
  static const bool registered = [] {
    at_fork(nullptr, nullptr, [] { ++current_; });
    return true;
  }();
  static_cast<void>(registered);
}

void at_fork(void (*prepare)(), void (*parent)(), void (*child)()) {
  BERTH_CHECK(pthread_atfork(prepare, parent, child) == 0);
}

}  // namespace berth
