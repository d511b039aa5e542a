// SPDX-License-Identifier: Apache-2.0
// The rules of a trace: each block is allocated once, and freed once with the bytes of its
// allocation. Segments and markers are not checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "berth/trace.hpp"

#include "base/secret_hash.hpp"

namespace berth {

class TraceChecker {
 public:
  /// `place` is the unit of places, "line", with which messages refer to earlier events.
  explicit TraceChecker(const char* place) : place_(place) {}

  /// The problem of `event` after the events added before it; nullopt if there is none. No event
  /// may be added after a problem.
  std::optional<std::string> add(const TraceEvent& event, std::size_t place);

  /// An upper bound of the host memory of the blocks, including the growth of their table.
  [[nodiscard]] std::uint64_t bytes_held() const { return blocks_.size() * kBlockBytes; }

 private:
  /// A node of 56 bytes in a chunk of 64, and three pointers of buckets: the old ones, and twice as
  /// many new ones.
  static constexpr std::uint64_t kBlockBytes = 96;

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
  /// Including freed blocks, because an id is never used twice.
  std::unordered_map<std::int64_t, Block, SecretHash> blocks_;
  std::uint64_t bytes_live_ = 0;
};

}  // namespace berth
