// SPDX-License-Identifier: Apache-2.0
// Names of memory, given by the program. See driver/sim_abi.hpp.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/with_installed.hpp"

namespace berth::sim {

void berth_sim_berthSimNameMemory(const void* start, std::size_t bytes, const char* name) {
  with_installed([&](State& state) {
    state.memory_names.set(reinterpret_cast<std::uint64_t>(start), bytes,
                           name == nullptr ? std::string_view() : std::string_view(name));
  });
}

}  // namespace berth::sim
