// SPDX-License-Identifier: Apache-2.0
// The interface between berth and its simulated driver beyond CUDA: the entry point of
// libberth_sim, and functions by which a program reports to the race detector the actions of host
// threads without a driver call. A hardware driver has none of them, and berth then calls none.
//
//   X(member, symbol, type)
//
// None of these functions fails or waits for work, and any thread may call them. An object is
// identified by its address, which is never read; any object of the program can be used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "berth/export.h"

/// Address of the simulated function `symbol` (cu*, nvml* and berthSim*), by its name with or
/// without version suffix, for callers of the newest ABI; null if it is not simulated, or if the
/// simulated version of the driver (`driver_version`) does not have that ABI, as cuGetProcAddress
/// has it. The only symbol of libberth_sim that berth looks up.
/// Threads  any; needs no simulator: without one, BERTH_SIM determines the version.
extern "C" BERTH_API void* berth_sim_resolve(const char* symbol) noexcept;

/// The reason why the simulator would reject `text` as BERTH_SIM, in one line; empty if it would
/// not. Valid until the next call in the same thread. A log file that `text` names is truncated.
extern "C" BERTH_API const char* berth_sim_check_configuration(const char* text) noexcept;

namespace berth::sim_abi {

/// The reason why BERTH_SIM was rejected when cuInit last read it; empty if it was not. Valid until
/// the next call in the same thread. cuInit prints the reason on standard error until this function
/// is first called. Found by the name berthSimConfigurationError.
using ConfigurationError = const char*();

/// The calling thread has read `value` in `word`, pinned or managed memory of 4 or 8 bytes. From
/// now on the thread is ordered after the work that wrote that value, and after all work before it.
/// A value that no work wrote has no effect on order. Pending work may progress in this call, as in
/// a driver call, so a thread that polls a word calls it each time.
using HostObserves = void(const void* word, std::uint64_t value);

/// From now on the calling thread acts for `object`; null: for itself again. It then has the
/// knowledge of the object instead of its own: the knowledge that was released to the object, and
/// the work that threads have waited for or observed while they acted for it. Returns the former
/// object.
using HostActsFor = const void*(const void* object);
/// `object` has the knowledge of the calling thread from now on, as at the end of a critical
/// section. If the object is a word of memory that a stream waits for, call it before the word is
/// written: the stream is then ordered after the calling thread, and otherwise after all that any
/// thread knows.
using HostReleases = void(const void* object);
/// The calling thread has the knowledge of `object` from now on, as at the beginning of a critical
/// section.
using HostAcquires = void(const void* object);
/// `object` is destroyed or new: the knowledge of an earlier object at its address is dropped.
using HostForgets = void(const void* object);

/// The calling thread itself reads or writes `bytes` of pinned or managed memory, now. Other memory
/// in the range is not checked.
using HostUses = void(const void* start, std::size_t bytes);
/// The next user of `bytes` of pinned or managed memory is ordered behind all users so far, by the
/// program's own means. The calling thread knows that all their work is done, and no existing graph
/// uses the bytes.
using HostRecycles = void(const void* start, std::size_t bytes);
/// An allocator gives `bytes` of pinned or managed memory to a new user, which does not know of
/// graphs: no existing graph uses the bytes. HostRecycles implies that too.
using HostReuses = void(const void* start, std::size_t bytes);

/// Findings call the `bytes` at `start` by `name` until the memory ends or is named again; null or
/// empty: by no name. Memory of any kind. berth itself calls no such function; programs do.
using NameMemory = void(const void* start, std::size_t bytes, const char* name);

// clang-format off
#define BERTH_SIM_PROGRAM_FUNCTIONS(X) X(berthSimNameMemory, NameMemory)
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
