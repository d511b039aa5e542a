// SPDX-License-Identifier: Apache-2.0
// The variables of modules and libraries. One gets memory when its address is first asked for: in
// each context, or, if it is managed, once for all. It begins with the initial value, so that a
// program cannot tell it from memory that exists since the module was loaded. Guarded by
// sim::mutex.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <utility>

#include "sim/device/context.hpp"
#include "sim/handle_table.hpp"
#include "sim/work/ptx_variables.hpp"

namespace berth::sim {

struct State;

struct ModuleVariable {
  explicit ModuleVariable(ImageVariable declared_) : declared(std::move(declared_)) {}

  ImageVariable declared;
  std::map<Handle, std::uint64_t> places;  ///< addresses by context; of managed memory by 0
};

/// The address of `variable` in `context`; 0 if there is no memory for it. If its initial value is
/// not known, the first in a process says so on standard error.
std::uint64_t address_in(State& state, const Context& context, ModuleVariable& variable);
/// Frees its memory. Work that still uses it faults.
void release(State& state, const ModuleVariable& variable);

}  // namespace berth::sim
