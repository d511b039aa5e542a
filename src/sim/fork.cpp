// SPDX-License-Identifier: Apache-2.0
#include "sim/fork.hpp"

#include "base/fork.hpp"
#include "sim/lock.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

void before_fork() BERTH_NO_THREAD_SAFETY_ANALYSIS {
  mutex.lock();
}

void after_fork() BERTH_NO_THREAD_SAFETY_ANALYSIS {
  mutex.unlock();
}

void in_child() BERTH_NO_THREAD_SAFETY_ANALYSIS {
  if (State* const state = installed_state()) {
    if (state->initialized) parents_driver.store(true, std::memory_order_relaxed);
    state->nvml_users = 0;
  }
  after_fork();
}

/// When the library is loaded, because a first call may be in progress at a fork.
[[maybe_unused]] const bool is_prepared = [] {
  at_fork(&before_fork, &after_fork, &in_child);
  return true;
}();

}  // namespace
}  // namespace berth::sim
