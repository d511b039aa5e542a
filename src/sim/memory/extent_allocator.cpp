// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/extent_allocator.hpp"

#include <algorithm>
#include <iterator>

#include "base/arithmetic.hpp"
#include "base/check.hpp"

namespace berth::sim {

ExtentAllocator::ExtentAllocator(std::uint64_t start, std::uint64_t bytes) {
  if (bytes != 0) insert(start, bytes);
}

void ExtentAllocator::insert(std::uint64_t start, std::uint64_t bytes) {
  by_start_.emplace(start, bytes);
  by_size_.emplace(bytes, start);
  free_bytes_ += bytes;
}

void ExtentAllocator::erase(ByStart::iterator extent) {
  free_bytes_ -= extent->second;
  by_size_.erase({extent->second, extent->first});
  by_start_.erase(extent);
}

void ExtentAllocator::carve(ByStart::iterator extent, std::uint64_t start, std::uint64_t bytes) {
  const std::uint64_t before = start - extent->first;
  const std::uint64_t after = extent->second - before - bytes;
  const std::uint64_t first = extent->first;
  erase(extent);
  if (before != 0) insert(first, before);
  if (after != 0) insert(start + bytes, after);
}

std::optional<std::uint64_t> ExtentAllocator::allocate(std::uint64_t bytes,
                                                       std::uint64_t alignment) {
  for (auto fit = by_size_.lower_bound({bytes, 0}); fit != by_size_.end(); ++fit) {
    const auto [size, start] = *fit;
    const std::uint64_t skipped = -start & (alignment - 1);
    if (skipped > size - bytes) continue;
    carve(by_start_.find(start), start + skipped, bytes);
    return start + skipped;
  }
  return std::nullopt;
}

bool ExtentAllocator::allocate_at(std::uint64_t start, std::uint64_t bytes) {
  auto extent = by_start_.upper_bound(start);
  if (extent == by_start_.begin()) return false;
  --extent;
  const std::uint64_t before = start - extent->first;
  if (before > extent->second || bytes > extent->second - before) return false;
  carve(extent, start, bytes);
  return true;
}

std::vector<Extent> ExtentAllocator::allocate_scattered(std::uint64_t bytes) {
  if (const auto start = allocate(bytes, 1)) return {{*start, bytes}};
  std::vector<Extent> pieces;
  if (bytes > free_bytes_) return pieces;
  while (bytes != 0) {
    const auto [size, start] = *by_size_.rbegin();
    const std::uint64_t taken = std::min(size, bytes);
    carve(by_start_.find(start), start, taken);
    pieces.push_back({start, taken});
    bytes -= taken;
  }
  return pieces;
}

void ExtentAllocator::release(std::uint64_t start, std::uint64_t bytes) {
  auto next = by_start_.lower_bound(start);
  BERTH_CHECK(next == by_start_.end() || start + bytes <= next->first);
  if (next != by_start_.begin()) {
    const auto previous = std::prev(next);
    BERTH_CHECK(previous->first + previous->second <= start);
    if (previous->first + previous->second == start) {
      start = previous->first;
      bytes += previous->second;
      erase(previous);
    }
  }
  if (next != by_start_.end() && start + bytes == next->first) {
    bytes += next->second;
    erase(next);
  }
  insert(start, bytes);
}

}  // namespace berth::sim
