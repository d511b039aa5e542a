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

#include "base/secret_hash.hpp"

namespace berth {

class TraceChecker {
 public:
  /// `place` is what places count, "line": messages point at earlier events by it.
  explicit TraceChecker(const char* place) : place_(place) {}

  /// What is wrong with `event` after those added before it; nullopt where nothing is. Nothing may
  /// be added after a problem.
  std::optional<std::string> add(const TraceEvent& event, std::size_t place);

  /// An upper bound of the host memory that the blocks take, while their table grows too.
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
  /// Freed ones too: an id is never used twice.
  std::unordered_map<std::int64_t, Block, SecretHash> blocks_;
  std::uint64_t bytes_live_ = 0;
};

}  // namespace berth
