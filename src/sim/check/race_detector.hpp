// SPDX-License-Identifier: Apache-2.0
// Finds two uses of the same bytes, one of them a write, that are not ordered by a stream, an event
// or synchronization; and memory that is freed while the host has not waited for work that uses it.
// The detector uses the order that calls establish, so it also finds a race if the work happened to
// run in a correct order. Guarded by sim::mutex.
//
// Programs synchronize by waits for values and writes of values, so these are not uses: a wait is
// ordered after the write that it observes. If the host may have written the value, the wait is
// ordered after the clock released to the word (berthSimHostReleases), or otherwise after the
// clocks of all host threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "sim/check/findings.hpp"
#include "sim/check/happens_before.hpp"
#include "sim/check/shadow_memory.hpp"
#include "sim/check/words.hpp"

namespace berth::sim {

struct GraphExec;
struct Range;
struct State;

class RaceDetector {
 public:
  RaceDetector(bool on, HappensBefore& order, Findings& findings)
      : on_(on), order_(order), findings_(findings) {}

  /// An operation, ordered after `before`, uses `data`, a part of the memory in `use`. `arrival`:
  /// as in ShadowMemory::enter().
  void use(State& state, const Use& use, const Clock& before, std::span<const std::byte> data,
           const Arrival* arrival = nullptr);
  /// `call` is about to free `range`, and does not wait for completed or pending work.
  void check_end(State& state, const Range& range, CallSite call);
  /// `free`, an operation that runs, frees `range`, pool memory that is not there. If the
  /// allocation is pending, nothing orders the free after it.
  void check_order(State& state, const Use& free, const Range& range);
  /// The calling thread uses the part of `bytes` at `address` that is pinned or managed memory.
  void use_by_host(State& state, UseKind kind, std::uint64_t address, std::uint64_t bytes);
  /// The calling thread reuses such memory: earlier uses are forgotten.
  void recycle(State& state, std::uint64_t address, std::uint64_t bytes);
  /// The same for uses by graphs, which may be launched again.
  void check_reuse(State& state, std::uint64_t address, std::uint64_t bytes);
  /// `call` launches `exec`. The host memory that it uses must not have been freed.
  void check_launch(State& state, const GraphExec& exec, CallSite call);
  /// The simulator has moved the bytes.
  void move(std::span<const std::byte> data, const std::byte* to);
  /// The simulator returns the bytes to the system, or reuses them.
  void forget(std::span<const std::byte> data);

  /// Work that is ordered after `before` wrote `value` to the `bytes` at `where`.
  void release(const Clock& before, const std::byte* where, std::uint64_t value, unsigned bytes);
  /// The wait `wait` on `order` has observed the value at `where`; `from_host`: the host may have
  /// written it.
  void acquire(StreamOrder& order, Stamp wait, const std::byte* where, bool from_host);
  /// The host has read `value` at `where`, without a driver call; nullopt: the latest value.
  void observe(const std::byte* where, std::optional<std::uint64_t> value);

 private:
  /// A use of `range` by completed work that the calling thread has not waited for.
  std::optional<Use> find_use_done(State& state, const Range& range) const;

  bool on_;
  HappensBefore& order_;
  Findings& findings_;
  ShadowMemory shadow_;
  std::map<const std::byte*, Clock> releases_;  // the latest of each place
  Words words_;
};

}  // namespace berth::sim
