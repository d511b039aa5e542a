// SPDX-License-Identifier: Apache-2.0
// Executes the passes of a BusyProgram on a machine: a measured allocator, or the model that is the
// bound for any allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sim/work/cost_model.hpp"
#include "workloads/busy_program.hpp"

namespace berth::bench {

/// The host's time for queuing a kernel.
inline std::uint64_t launch_call_ns() {
  return sim::call_ns(sim::Function::k_cuLaunchHostFunc);
}

/// Slots that a machine needs: those of the program, and one for each block that may persist.
inline std::size_t slots_with_persistent(const BusyProgram& program) {
  return program.slots + program.last_frees.size();
}

/// A machine has
///   allocate(slot, bytes, stream)  and queues a kernel on the stream that uses the block
///   wait(stream, other)            the stream waits for all that the other one holds
///   free(slot, stream, user)       where `user` is a stream, behind a kernel there
///   move(from, to)                 a block to an empty slot
template <class Machine>
void run_operations(Machine& machine, std::span<const BusyOperation> operations) {
  for (const BusyOperation& operation : operations) {
    const auto& [bytes, slot, stream, other, allocates] = operation;
    if (!allocates) {
      machine.free(slot, stream, other);
      continue;
    }
    if (other != BusyOperation::kNone) machine.wait(stream, other);
    machine.allocate(slot, bytes, stream);
  }
}

/// Ends pass `pass`, counted from 0: frees the live blocks, except those that persist, and the
/// blocks that persisted since the previous pass.
template <class Machine>
void end_pass(Machine& machine, const BusyProgram& program, int pass) {
  const auto slot_of_persistent = [&program](std::size_t index) {
    return static_cast<std::uint32_t>(program.slots + index);
  };
  for (std::size_t index = 0; index < program.last_frees.size(); ++index) {
    const BusyOperation& block = program.last_frees[index];
    if (pass > 0 && program.persists(pass - 1, index))
      machine.free(slot_of_persistent(index), block.stream, BusyOperation::kNone);
    if (program.persists(pass, index))
      machine.move(block.slot, slot_of_persistent(index));
    else
      machine.free(block.slot, block.stream, BusyOperation::kNone);
  }
}

}  // namespace berth::bench
