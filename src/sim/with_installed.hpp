// SPDX-License-Identifier: Apache-2.0
// For functions that only the simulator has: they are no driver calls, need no cuInit, and have no
// effect without a simulator.
#pragma once

#include "base/mutex.hpp"
#include "sim/fork.hpp"
#include "sim/lock.hpp"
#include "sim/state.hpp"

namespace berth::sim {

/// Calls `tell(state)` under the lock, if a simulator of this process is installed.
template <class Tell>
void with_installed(const Tell& tell) {
  if (is_parents_driver()) return;
  MutexLock lock(mutex);
  if (State* const state = installed_state()) tell(*state);
}

}  // namespace berth::sim
