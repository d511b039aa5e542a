// SPDX-License-Identifier: Apache-2.0
// Finds two uses of the same bytes, one of them a write, that no stream order, event or
// synchronisation separates; and bytes that go away under work that the host has not waited for. It
// goes by the order that calls establish, so that a race is found also where the work happened to
// run in a good order. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/findings.hpp"
#include "sim/happens_before.hpp"
#include "sim/shadow_memory.hpp"

namespace berth::sim {

struct Operation;
struct Range;
struct State;
struct Stream;

class RaceDetector {
 public:
  RaceDetector(bool on, Findings& findings) : on_(on), findings_(findings) {}

  [[nodiscard]] bool on() const { return on_; }
  HappensBefore& order() { return order_; }

  /// `operation` of `stream`, whose range of addresses starts at `address`, uses `data`.
  void use(const Stream& stream, const Operation& operation, std::uint64_t address,
           std::uint64_t range_bytes, const std::byte* data, std::size_t bytes, bool writes);
  /// `range` is about to go, by `call`.
  void check_end(State& state, const Range& range, CallSite call);
  /// The simulator gives the bytes to the system, or to somebody else.
  void forget(const std::byte* data, std::size_t bytes) {
    if (on_) shadow_.forget(data, bytes);
  }

 private:
  bool on_;
  Findings& findings_;
  HappensBefore order_;
  ShadowMemory shadow_;
};

}  // namespace berth::sim
