// SPDX-License-Identifier: Apache-2.0
// An interprocess event: two counters in memory that its processes share, of the records that were
// begun and of those that are done. A handle names the process that created it and its descriptor
// of that memory, as in memory/ipc_memory.hpp. What it orders in other processes is unknown here,
// so work behind a record of another process counts as ordered after all that this process has
// recorded in such events (State::shared_order). Guarded by sim::mutex, except for the counters.
// Source: CUDA Driver API, cuIpcGetEventHandle, cuIpcOpenEventHandle.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>

#include "sim/memory/shared_memory.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

struct Event;
struct State;

class InterprocessEvent {
 public:
  /// Null if the system is out of memory or descriptors.
  static std::shared_ptr<InterprocessEvent> create(const Uuid& uuid);
  /// The event of another process. Sets `error` and returns null if there is none, or if it is one
  /// of this process.
  static std::shared_ptr<InterprocessEvent> open(const CUipcEventHandle& handle, CUresult& error);

  [[nodiscard]] CUipcEventHandle handle() const;
  /// The number of a record that begins.
  std::uint64_t begin_record();
  void end_record(std::uint64_t number);
  [[nodiscard]] std::uint64_t recorded() const;
  [[nodiscard]] std::uint64_t done() const;

 private:
  explicit InterprocessEvent(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}

  std::shared_ptr<SharedMemory> memory_;
};

/// The work of a record of `event`, which is its latest from now on.
RecordWork begin_record(Event& event);
/// `event` was recorded, with that clock.
void note_record(State& state, Event& event, const Clock& clock);
/// A wait for the latest record of `event`, which is one of another process.
WaitValueWork wait_for_foreign(const Event& event);

}  // namespace berth::sim
