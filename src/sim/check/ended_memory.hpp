// SPDX-License-Identifier: Apache-2.0
// Memory that the program has ended, for findings about work that still uses it. Guarded by
// sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "sim/check/shadow_memory.hpp"

namespace berth::sim {

struct Range;
struct State;

class EndedMemory {
 public:
  struct Entry {
    std::uint64_t start;
    std::uint64_t bytes;
    CallSite call;     ///< that ended it
    std::string name;  ///< MemoryNames::describe(), before
  };

  /// The running call ends `range`, and its names.
  void note(State& state, const Range& range);
  /// Work of `call`, submitted earlier, has ended it.
  void note(State& state, const Range& range, const CallSite& call);
  /// The latest memory with a byte in [start, start + bytes); null if there is none, or if it ended
  /// too long ago.
  [[nodiscard]] const Entry* find(std::uint64_t start, std::uint64_t bytes) const;

 private:
  /// The number of ends remembered: enough for a program that frees its memory too early, and cheap
  /// for one that allocates without end.
  static constexpr std::size_t kRemembered = 4096;

  std::deque<Entry> entries_;  // the latest last
};

}  // namespace berth::sim
