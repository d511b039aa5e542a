// SPDX-License-Identifier: Apache-2.0
// What a program tells of its host threads. See driver/sim_abi.hpp.
#include "base/mutex.hpp"
#include "sim/lock.hpp"
#include "sim/state.hpp"

namespace berth::sim {

void berth_sim_berthSimHostObserves(const void* word, std::uint64_t value) {
  MutexLock lock(mutex);
  State* state = installed_state();
  if (state == nullptr || !state->initialized) return;
  state->scheduler.at_call(Function::count);
  state->races.observe(static_cast<const std::byte*>(word), value);
  state->scheduler.at_return();
}

}  // namespace berth::sim
