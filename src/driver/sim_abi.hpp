// SPDX-License-Identifier: Apache-2.0
// What berth and its simulated driver agree on beyond CUDA: the entry point of libberth_sim, and
// functions by which a program tells the race detector what host threads do without a driver call.
// A hardware driver lacks all of it, and berth then calls nothing.
//
//   X(member, symbol, type)
//
// None of these functions fails or waits for work, and any thread may call them. An object is named
// by its address; any object of the program will do, and nothing is read there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "berth/export.h"

/// Address of the simulated function `symbol` (cu*, nvml* and berthSim*), by its name with or
/// without version suffix, for callers of the newest ABI; null if it is not simulated, or if the
/// simulated version of the driver (`driver_version`) does not have that ABI, as cuGetProcAddress
/// has it. The only symbol of libberth_sim that berth looks up.
/// Threads  any; needs no simulator: without one, BERTH_SIM says the version.
extern "C" BERTH_API void* berth_sim_resolve(const char* symbol) noexcept;

/// Why the simulator would reject `text` as BERTH_SIM, in one line; empty if it would not. Valid
/// until the next call in the same thread. A log file that `text` names is made empty.
extern "C" BERTH_API const char* berth_sim_check_configuration(const char* text) noexcept;

namespace berth::sim_abi {

/// Why BERTH_SIM was rejected when cuInit last read it; empty if it was not. Valid until the next
/// call in the same thread. Found by the name berthSimConfigurationError.
using ConfigurationError = const char*();

/// The calling thread has read `value` in `word`, pinned or managed memory of 4 or 8 bytes: from
/// now on it comes after the work that wrote that value there, and after all that the work comes
/// after. A value that no work wrote orders nothing. The look itself is a moment in which pending
/// work may go on, as in a driver call, so a thread that polls a word says so each time.
using HostObserves = void(const void* word, std::uint64_t value);

/// What the calling thread does from now on, it does for `object`; null: for itself again. It then
/// knows what the object does, and not what the thread does: what was released to the object, and
/// what threads have waited for or observed while they acted for it. Gives the former object.
using HostActsFor = const void*(const void* object);
/// `object` knows from now on what the calling thread knows. As the end of a critical section.
/// Where it is a word of memory that a stream waits for, said before the word is written: the
/// stream comes after that, and otherwise after all that any thread knows.
using HostReleases = void(const void* object);
/// The calling thread knows from now on what `object` knows. As the beginning of a critical
/// section.
using HostAcquires = void(const void* object);
/// `object` goes, or is new: what another knew that had its address is forgotten.
using HostForgets = void(const void* object);

/// The calling thread itself reads or writes `bytes` of pinned or managed memory, now. What of that
/// is neither is not watched.
using HostUses = void(const void* start, std::size_t bytes);
/// Whoever uses `bytes` of pinned or managed memory next is ordered behind all its users so far, by
/// the program's own means. The calling thread knows all their work to be done, and no graph that
/// still exists uses them.
using HostRecycles = void(const void* start, std::size_t bytes);
/// An allocator gives `bytes` of pinned or managed memory to a new user, who knows nothing of
/// graphs: none that still exists uses them. HostRecycles says that too.
using HostReuses = void(const void* start, std::size_t bytes);

// clang-format off
#define BERTH_SIM_ONLY_FUNCTIONS(X) \
  X(configuration_error, berthSimConfigurationError, ConfigurationError) \
  X(host_observes, berthSimHostObserves, HostObserves) \
  X(host_acts_for, berthSimHostActsFor,  HostActsFor) \
  X(host_releases, berthSimHostReleases, HostReleases) \
  X(host_acquires, berthSimHostAcquires, HostAcquires) \
  X(host_forgets,  berthSimHostForgets,  HostForgets) \
  X(host_reads,    berthSimHostReads,    HostUses) \
  X(host_writes,   berthSimHostWrites,   HostUses) \
  X(host_recycles, berthSimHostRecycles, HostRecycles) \
  X(host_reuses,   berthSimHostReuses,   HostReuses)
// clang-format on

}  // namespace berth::sim_abi
