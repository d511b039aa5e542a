// SPDX-License-Identifier: Apache-2.0
// Names of memory, given by the program. See driver/sim_abi.hpp.
#include <string_view>

#include "base/mutex.hpp"
#include "sim/fork.hpp"
#include "sim/lock.hpp"
#include "sim/state.hpp"

namespace berth::sim {

void berth_sim_berthSimNameMemory(const void* start, std::size_t bytes, const char* name) {
  if (is_parents_driver()) return;
  MutexLock lock(mutex);
  State* const state = installed_state();
  if (state == nullptr) return;
  state->memory_names.set(reinterpret_cast<std::uint64_t>(start), bytes,
                          name == nullptr ? std::string_view() : std::string_view(name));
}

}  // namespace berth::sim
