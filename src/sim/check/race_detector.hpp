// SPDX-License-Identifier: Apache-2.0
// Finds two uses of the same bytes, one of them a write, that no stream order, event or
// synchronisation separates; and bytes that go away under work that the host has not waited for. It
// goes by the order that calls establish, so that a race is found also where the work happened to
// run in a good order. Guarded by sim::mutex.
//
// Waits for values and writes of them are what programs synchronise by, so they are not uses: a
// wait comes after the write that it sees, and where the host may have written, after what was
// released to the word (berthSimHostReleases), or else after all that anybody on the host knows.
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

  /// An operation, which comes after `before`, uses `data`, a stretch of what `use` names.
  /// `arrival`: as in ShadowMemory::enter().
  void use(State& state, const Use& use, const Clock& before, std::span<const std::byte> data,
           const Arrival* arrival = nullptr);
  /// `call` is about to end `range`, and waits neither for work that has run nor for pending work.
  void check_end(State& state, const Range& range, CallSite call);
  /// The calling thread uses the part of `bytes` at `address` that is pinned or managed memory.
  void use_by_host(State& state, UseKind kind, std::uint64_t address, std::uint64_t bytes);
  /// The calling thread gives such memory to a new user: earlier uses no longer count.
  void recycle(State& state, std::uint64_t address, std::uint64_t bytes);
  /// The same for uses by graphs that may be launched again, which no wait can end.
  void check_reuse(State& state, std::uint64_t address, std::uint64_t bytes);
  /// `call` launches `exec`. The host memory that it uses must not have been freed.
  void check_launch(State& state, const GraphExec& exec, CallSite call);
  /// The simulator returns the bytes to the system, or reuses them.
  void forget(std::span<const std::byte> data);

  /// `value` was written to the `bytes` at `where` by work that comes after `before`.
  void release(const Clock& before, const std::byte* where, std::uint64_t value, unsigned bytes);
  /// The wait `wait` on `order` has seen the value at `where`; `from_host`: which the host may have
  /// written.
  void acquire(StreamOrder& order, Stamp wait, const std::byte* where, bool from_host);
  /// The host has read `value` at `where`, without a driver call; nullopt: whatever was written
  /// last.
  void observe(const std::byte* where, std::optional<std::uint64_t> value);

 private:
  /// What has been done to `range` that the calling thread has not waited for.
  std::optional<Use> find_use_done(State& state, const Range& range) const;

  bool on_;
  HappensBefore& order_;
  Findings& findings_;
  ShadowMemory shadow_;
  std::map<const std::byte*, Clock> releases_;  // the latest of each place
  Words words_;
};

}  // namespace berth::sim
