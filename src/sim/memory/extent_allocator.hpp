// SPDX-License-Identifier: Apache-2.0
// Allocates extents of a range of numbers: addresses, or bytes of a device. Free neighbors are
// always coalesced. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace berth::sim {

struct Extent {
  std::uint64_t start;
  std::uint64_t bytes;
};

class ExtentAllocator {
 public:
  /// All of [start, start + bytes) is initially free.
  ExtentAllocator(std::uint64_t start, std::uint64_t bytes);

  /// The best fit at `alignment`, a power of two; nullopt if there is none.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes, std::uint64_t alignment);
  /// Exactly [start, start + bytes), if all of it is free.
  bool allocate_at(std::uint64_t start, std::uint64_t bytes);
  /// In one piece if there is a fit, otherwise the largest pieces; empty if too little is free.
  std::vector<Extent> allocate_scattered(std::uint64_t bytes);
  /// Frees the result of an allocate function, or a part of it.
  void release(std::uint64_t start, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t free_bytes() const { return free_bytes_; }

 private:
  using ByStart = std::map<std::uint64_t, std::uint64_t>;

  void insert(std::uint64_t start, std::uint64_t bytes);
  void erase(ByStart::iterator extent);
  /// Removes [start, start + bytes) from the free extent that contains it.
  void carve(ByStart::iterator extent, std::uint64_t start, std::uint64_t bytes);

  ByStart by_start_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (bytes, start)
  std::uint64_t free_bytes_ = 0;
};

}  // namespace berth::sim
