// SPDX-License-Identifier: Apache-2.0
// An operation on a stream, and its dependencies. Guarded by sim::mutex.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "berth/sim.hpp"

#include "sim/check/shadow_memory.hpp"
#include "sim/handle_table.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/work/computation.hpp"

namespace berth::sim {

class InterprocessEvent;

/// All work submitted to `stream` up to `sequence`. A destroyed stream has completed all its work.
struct Ticket {
  Handle stream = 0;
  std::uint64_t sequence = 0;
};

/// Orders later work, without an effect of its own.
struct WaitWork {};

/// From the first byte of `rows` rows, which are `pitch` apart, to the end of the last row.
constexpr std::size_t extent(std::size_t width, std::size_t rows, std::size_t pitch) {
  return (rows - 1) * pitch + width;
}

/// Addresses are resolved when the copy runs: device and pinned memory that was freed meanwhile
/// faults.
struct CopyWork {
  [[nodiscard]] std::size_t total() const { return width * rows; }
  [[nodiscard]] std::size_t destination_extent() const {
    return extent(width, rows, destination_pitch);
  }
  [[nodiscard]] std::size_t source_extent() const { return extent(width, rows, source_pitch); }

  std::uint64_t destination;
  std::uint64_t source;
  std::size_t width;  ///< bytes of each row
  std::size_t rows = 1;
  std::size_t destination_pitch =
      0;  ///< bytes from row to row, at least `width` where there are two
  std::size_t source_pitch = 0;
  bool destination_pageable = false;
  bool source_pageable = false;
  bool is_further = false;  ///< of a batch, and not its first: the engine has started already
  /// The content of the source, with packed rows, if it is read before the copy runs. Shared, so
  /// that work can be copied: a graph runs its work repeatedly.
  std::shared_ptr<std::byte[]> staged = nullptr;
};

/// Reads the source of the next copy on the same stream, and takes the time of both.
struct FetchWork {
  [[nodiscard]] std::size_t total() const { return width * rows; }
  [[nodiscard]] std::size_t source_extent() const { return extent(width, rows, source_pitch); }

  std::uint64_t source;
  std::size_t width;  ///< bytes of each row
  std::size_t rows;
  std::size_t source_pitch;
  bool source_pageable;
  std::shared_ptr<std::byte[]> into;  ///< gets packed rows
};

/// Repeats a value of 1, 2 or 4 bytes. Addresses and pitch are aligned to it.
struct MemsetWork {
  [[nodiscard]] std::size_t total() const { return width * rows; }

  std::uint64_t destination;
  std::size_t width;  ///< bytes of each row, a multiple of `value_bytes`
  std::uint32_t value;
  unsigned value_bytes = 1;
  std::size_t rows = 1;
  std::size_t pitch = 0;  ///< as that of a copy
};

/// A function of cuLaunchHostFunc, or a callback of cuStreamAddCallback. A callback also runs if
/// the context has faulted, with that status.
struct HostFunctionWork {
  CUhostFn function = nullptr;
  void* data = nullptr;
  CUstreamCallback callback = nullptr;
  CUstream stream = nullptr;  ///< the handle that the caller of cuStreamAddCallback passed
};

/// The start of a kernel on the device.
enum class Resident {
  when_ready,     ///< its predecessors are complete
  before_poll,    ///< start of the previous poll on its stream
  with_previous,  ///< same kernel as the previous one on its stream
};

/// Occupies the device, uses memory, and calls `compute` unless it is empty.
struct KernelWork {
  std::uint64_t duration_ns;
  std::vector<MemoryUse> uses;
  const char* name = nullptr;  ///< in State::kernel_names; null: unnamed
  Computation compute = {};
  Resident resident = Resident::when_ready;
};

/// Stores the time in `event`, unless it was destroyed or recorded again.
struct RecordWork {
  Handle event;
  std::shared_ptr<InterprocessEvent> shared = nullptr;  ///< of an interprocess event
  std::uint64_t number = 0;                             ///< the record's number in it
};

/// Makes `range`, pool memory, accessible to later work.
struct ArriveWork {
  std::shared_ptr<const Range> range;
};

/// Ends `range`, which is accessible, for later work.
struct DepartWork {
  std::shared_ptr<const Range> range;
};

/// Migrates managed memory to the device in `slot`, or to the host with -1. The memory stays
/// accessible meanwhile, so this is not a use of it.
struct PrefetchWork {
  std::uint64_t address;
  std::size_t bytes;
  int slot;
};

/// Blocks its stream until the 4 or 8 bytes at `address` satisfy `condition`.
struct WaitValueWork {
  std::uint64_t address;
  std::uint64_t value;
  unsigned bytes;
  unsigned condition;      ///< CUstreamWaitValue_flags without the flush
  bool is_kernel = false;  ///< that polls: does not block others in its channel
  /// If set, it waits until that many records of this event are done instead.
  std::shared_ptr<const InterprocessEvent> event = nullptr;
};

struct WriteValueWork {
  std::uint64_t address;
  std::uint64_t value;
  unsigned bytes;
};

using Work =
    std::variant<WaitWork, CopyWork, FetchWork, MemsetWork, HostFunctionWork, KernelWork,
                 RecordWork, ArriveWork, DepartWork, PrefetchWork, WaitValueWork, WriteValueWork>;

/// Whether it calls code of the program, for which the lock is let go of.
inline bool calls_program(const Work& work) {
  const auto* const kernel = std::get_if<KernelWork>(&work);
  return kernel != nullptr ? static_cast<bool>(kernel->compute)
                           : std::holds_alternative<HostFunctionWork>(work);
}

inline bool reads_or_writes(const Work& work) {
  return std::holds_alternative<CopyWork>(work) || std::holds_alternative<FetchWork>(work) ||
         std::holds_alternative<MemsetWork>(work) || std::holds_alternative<KernelWork>(work);
}

/// Whether it uses memory in the sense of the race detector.
inline bool uses_memory(const Work& work) {
  return reads_or_writes(work) || std::holds_alternative<ArriveWork>(work) ||
         std::holds_alternative<DepartWork>(work);
}

/// Whether a finding may name the call that submitted it: it uses memory, or waits for the program.
inline bool needs_call_site(const Work& work) {
  return uses_memory(work) || std::holds_alternative<WaitValueWork>(work) ||
         std::holds_alternative<HostFunctionWork>(work);
}

struct Operation {
  std::uint64_t sequence;  ///< its number in its stream, from 1
  std::uint64_t number;    ///< its number among all submissions, from 1
  /// Its dependencies by the program's order, besides its predecessor on the stream. Completed
  /// entries are removed from the end.
  std::vector<Ticket> waits_for;
  Work work;
  CallSite call = {};  ///< the call that submitted it
  Stamp stamp = {};    ///< both for the race detector
  Clock before = {};
  Floor floor = {};
  /// The same for waits of other streams in its channel, whose order the program has not
  /// established.
  std::vector<Ticket> in_channel = {};
  bool is_in_channel_order = false;  ///< ordered after every earlier wait of its channel
};

/// Submitted work, on which other work can depend.
struct Submitted {
  Ticket ticket = {};
  Stamp stamp = {};
  Clock clock = {};  ///< all predecessors, and itself
};

/// The work that the host waits for, and the host's clock afterwards.
struct Awaited {
  std::vector<Ticket> tickets;
  Clock clock = {};
};

}  // namespace berth::sim
