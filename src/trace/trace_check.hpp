// SPDX-License-Identifier: Apache-2.0
// What makes a sequence of events a trace: each block is allocated once, freed once, and with the
// bytes of its allocation. Segments and markers are as the recorder wrote them, and not checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "berth/trace.hpp"

namespace berth {

class TraceChecker {
 public:
  /// `place` is what places count, "line": messages point at earlier events by it.
  explicit TraceChecker(const char* place) : place_(place) {}

  /// What is wrong with `event` after those added before it; nullopt where nothing is. Nothing may
  /// be added after a problem.
  std::optional<std::string> add(const TraceEvent& event, std::size_t place);

 private:
  enum class State : std::uint8_t { live, free_requested, freed };
  struct Block {
    std::uint64_t bytes;
    std::size_t place_allocated;
    std::size_t place_freed;  ///< of the latest free operation
    std::int32_t device;
    State state;
  };

  std::optional<std::string> add_allocation(const TraceEvent& event, std::size_t place);
  std::optional<std::string> add_free(const TraceEvent& event, std::size_t place);

  const char* place_;
  std::unordered_map<std::int64_t, Block> blocks_;  ///< freed ones too: an id is never used twice
  std::uint64_t bytes_live_ = 0;
};

}  // namespace berth
