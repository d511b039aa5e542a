// SPDX-License-Identifier: Apache-2.0
#include "base/fork.hpp"

#include <pthread.h>
#include <string>
#include <utility>
#include <vector>

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
      ": of the process that this one was forked from, and CUDA does not work in the child of a "
      "process that has initialized it. " +
      std::string(kForkAdvice));
}

void keep_until_exit(std::shared_ptr<const void> kept) noexcept {
  // A child has one thread, and the objects that it keeps are never destroyed.
  static auto& all = *new std::vector<std::shared_ptr<const void>>;
  all.push_back(std::move(kept));
}

void at_fork(void (*prepare)(), void (*parent)(), void (*child)()) {
  BERTH_CHECK(pthread_atfork(prepare, parent, child) == 0);
}

}  // namespace berth
