// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/virtual_arena.hpp"

#include <algorithm>
#include <iterator>
#include <sys/mman.h>

#include "berth/bytes.hpp"

#include "base/arithmetic.hpp"
#include "base/check.hpp"

namespace berth::sim {
namespace {

constexpr std::uint64_t kStretchBytes = 4_GiB;
constexpr std::uint64_t kArenaPage = 4_KiB;
constexpr std::uint64_t kLargest = 1ULL << 46;  // half of the address space of a process

}  // namespace

VirtualArena::~VirtualArena() {
  for (const auto& [start, stretch] : stretches_)
    munmap(reinterpret_cast<void*>(start), stretch.bytes);
}

VirtualArena::Stretch* VirtualArena::grow(std::uint64_t bytes, std::uint64_t alignment) {
  if (bytes > kLargest || alignment > kLargest) return nullptr;
  const std::uint64_t slack = alignment > kArenaPage ? alignment : 0;
  const std::uint64_t size = std::max(kStretchBytes, align_up(bytes + slack, kArenaPage));
  void* start = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<std::uint64_t>(start);
  return &stretches_.emplace(address, Stretch{size, ExtentAllocator(address, size)}).first->second;
}

VirtualArena::Stretch* VirtualArena::stretch_of(std::uint64_t address) {
  auto found = stretches_.upper_bound(address);
  if (found == stretches_.begin()) return nullptr;
  --found;
  return address - found->first < found->second.bytes ? &found->second : nullptr;
}

bool VirtualArena::contains(std::uint64_t address) const {
  return const_cast<VirtualArena*>(this)->stretch_of(address) != nullptr;
}

std::optional<std::uint64_t> VirtualArena::reserve(std::uint64_t bytes, std::uint64_t alignment,
                                                   std::uint64_t hint) {
  if (hint != 0 && is_aligned(hint, alignment)) {
    Stretch* stretch = stretch_of(hint);
    if (stretch != nullptr && stretch->free.allocate_at(hint, bytes)) return hint;
  }
  for (auto& [start, stretch] : stretches_)
    if (const auto address = stretch.free.allocate(bytes, alignment)) return address;
  Stretch* fresh = grow(bytes, alignment);
  if (fresh == nullptr) return std::nullopt;
  return fresh->free.allocate(bytes, alignment);
}

void VirtualArena::release(std::uint64_t start, std::uint64_t bytes) {
  auto found = std::prev(stretches_.upper_bound(start));
  Stretch& stretch = found->second;
  stretch.free.release(start, bytes);
  // An exceptionally large reservation must not keep its address space.
  if (stretch.bytes > kStretchBytes && stretch.free.free_bytes() == stretch.bytes) {
    munmap(reinterpret_cast<void*>(found->first), stretch.bytes);
    stretches_.erase(found);
  }
}

}  // namespace berth::sim
