// SPDX-License-Identifier: Apache-2.0
#include "tool/checked_allocator.hpp"

#include <iterator>

#include <fmt/format.h>

#include "berth/statistics.hpp"

namespace berth::tool {

void* CheckedAllocator::allocate_raw(std::size_t bytes, StreamRef stream) {
  void* data = nullptr;
  try {
    data = allocator_.allocate_raw(bytes, stream);
  } catch (const OutOfMemory&) {
    check_operation();
    throw;
  }
  if (data != nullptr) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    check_block(address, bytes);
    bytes_by_address_.emplace(address, bytes);
    bytes_live_ += bytes;
  } else if (bytes != 0) {
    fail(fmt::format("null for an allocation of {} bytes", bytes));
  }
  check_operation();
  return data;
}

void CheckedAllocator::deallocate(void* data) {
  allocator_.deallocate(data);
  const auto block = bytes_by_address_.find(reinterpret_cast<std::uintptr_t>(data));
  if (block != bytes_by_address_.end()) {
    bytes_live_ -= block->second;
    bytes_by_address_.erase(block);
  }
  check_operation();
}

void CheckedAllocator::fail(const std::string& problem) const {
  throw CheckFailure(fmt::format("after {} operations: {}", operations_, problem));
}

void CheckedAllocator::check_block(std::uintptr_t address, std::size_t bytes) const {
  if (address % kBlockAlignment != 0)
    fail(fmt::format("block at {:#x} is not aligned to {}", address, kBlockAlignment));
  const auto above = bytes_by_address_.lower_bound(address);
  if (above != bytes_by_address_.end() && address + bytes > above->first)
    fail(fmt::format("block at {:#x} of {} bytes reaches into the live one at {:#x}", address,
                     bytes, above->first));
  if (above == bytes_by_address_.begin()) return;
  const auto below = std::prev(above);
  if (below->first + below->second > address)
    fail(fmt::format("block at {:#x} lies in the live one at {:#x} of {} bytes", address,
                     below->first, below->second));
}

void CheckedAllocator::check_operation() {
  allocator_.validate();
  if (++operations_ % 256 == 0) check_sums();
}

void CheckedAllocator::check_sums() const {
  const MemorySnapshot snapshot = allocator_.snapshot();
  for (const std::string& discrepancy : find_discrepancies(snapshot)) fail(discrepancy);
  const MemoryCounters& counters = snapshot.counters;
  if (counters.bytes_requested.current != bytes_live_)
    fail(fmt::format("the allocator counts {} requested bytes, the replay {}",
                     counters.bytes_requested.current, bytes_live_));
  if (counters.blocks_allocated.current != bytes_by_address_.size())
    fail(fmt::format("the allocator counts {} live blocks, the replay {}",
                     counters.blocks_allocated.current, bytes_by_address_.size()));
}

}  // namespace berth::tool
