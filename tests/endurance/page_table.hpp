// SPDX-License-Identifier: Apache-2.0
// Which physical frame each page of device addresses shows. Known from the driver calls alone, so
// that the allocator's own books are not what they are compared with.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace berth::endurance {

/// Divides every granule and the start of every segment that these programs use.
inline constexpr std::size_t kPageBytes = std::size_t{64} << 10;

using Frame = std::uint32_t;
inline constexpr Frame kNoFrame = 0;

/// Threads  find() any; set() one at a time.
class PageTable {
 public:
  PageTable() : leaves_(kLeaves) {}

  /// The frame behind `address`; kNoFrame where nothing is mapped.
  [[nodiscard]] Frame find(std::uintptr_t address) const {
    const std::size_t page = address / kPageBytes;
    if (page >= kLeaves * kLeafPages) return kNoFrame;
    const Leaf* const leaf = leaves_[page / kLeafPages].load(std::memory_order_acquire);
    return leaf == nullptr ? kNoFrame : (*leaf)[page % kLeafPages].load(std::memory_order_relaxed);
  }
  void set(std::uintptr_t address, Frame frame) {
    const std::size_t page = address / kPageBytes;
    std::atomic<Leaf*>& place = leaves_.at(page / kLeafPages);
    Leaf* leaf = place.load(std::memory_order_relaxed);
    if (leaf == nullptr) {
      leaf = made_.emplace_back(std::make_unique<Leaf>()).get();
      place.store(leaf, std::memory_order_release);
    }
    (*leaf)[page % kLeafPages].store(frame, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kLeafPages = std::size_t{1} << 15;
  static constexpr std::size_t kLeaves = std::size_t{1} << 16;  // 47 bits of address in all
  using Leaf = std::array<std::atomic<Frame>, kLeafPages>;

  std::vector<std::atomic<Leaf*>> leaves_;
  std::vector<std::unique_ptr<Leaf>> made_;
};

}  // namespace berth::endurance
