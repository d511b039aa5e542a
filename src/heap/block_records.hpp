// SPDX-License-Identifier: Apache-2.0
// The records of blocks, stored one after another in a separate address range, so that they can
// refer to each other by 32-bit indexes, never move, and need no heap call. Host memory is
// committed as records are needed, and kept.
//
// Each thread takes records from its own lane. Two records share a cache line, and threads that
// write to different records of one line would slow each other down.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.hpp"
#include "heap/block.hpp"

namespace berth {

/// Guarded by the lock of the allocator that it belongs to, except at().
class BlockRecords {
 public:
  /// 1.5 GiB of records: enough for 16 GiB in blocks of the minimum size, and for any device in
  /// blocks of the sizes of tensors.
  static constexpr std::size_t kBlocksMax = std::size_t{1} << 25;

  /// Errors  OutOfMemory: the address space is exhausted.
  BlockRecords();
  ~BlockRecords();
  BlockRecords(const BlockRecords&) = delete;
  BlockRecords& operator=(const BlockRecords&) = delete;

  /// A default block.
  /// Errors  OutOfMemory: the host has no memory, or there are kBlocksMax blocks.
  Block& make() {
    const std::size_t number = lane_of_thread();
    if (lanes_[number].spare == nullptr) [[unlikely]]
      extend(number);
    Lane& lane = lanes_[number];
    Block* const block = lane.spare;
    BERTH_CHECK(block->state() == Block::State::held && block->address == 0);
    BERTH_CHECK(!block->is_recent);
    lane.spare = block->next;
    --lane.spares;
    // Not by assignment, because PointerMap on another thread may still read the address.
    block->bytes = 0;
    block->set_slack_bytes(0);
    block->freed_at = 0;
    block->prev = nullptr;
    block->next = nullptr;
    block->tree = {};
    block->owner = kUnowned;
    block->is_stitched = false;
    return *block;
  }
  void recycle(Block& block) noexcept {
    // So that PointerMap::find_unguarded() on another thread does not find the block.
    block.address = 0;
    block.set_state(Block::State::held);
    Lane& lane = lanes_[lane_of_[static_cast<std::size_t>(&block - first_) / kLaneRecords]];
    block.next = lane.spare;
    lane.spare = &block;
    ++lane.spares;
  }
  /// Reserves memory so that the next `count` calls of make() cannot fail.
  /// Errors  as make().
  void reserve(std::size_t count) {
    const std::size_t lane = lane_of_thread();
    while (lanes_[lane].spares < count) [[unlikely]] extend(lane);
  }

  // A block in 32 bits, which are never 0. Safe from any thread.
  [[nodiscard]] std::uint32_t number_of(const Block& block) const {
    return static_cast<std::uint32_t>(&block - first_) + 1;
  }
  [[nodiscard]] Block& at(std::uint32_t number) const { return first_[number - 1]; }

  /// Records returned by make() and not yet recycled.
  [[nodiscard]] std::size_t count() const {
    std::size_t spares = 0;
    for (const Lane& lane : lanes_) spares += lane.spares;
    return given_ - spares;
  }
  [[nodiscard]] std::size_t bytes_committed() const { return committed_ * sizeof(Block); }

 private:
  struct Lane {
    Block* spare = nullptr;  ///< not in use, linked by `next`
    std::size_t spares = 0;
  };
  static constexpr std::size_t kLanes = 8;  ///< shared if there are more threads
  /// A whole number of cache lines, and of pages.
  static constexpr std::size_t kLaneRecords = 256;

  static std::size_t lane_of_thread() {
    if (lane_ == kNoLane) [[unlikely]]
      choose_lane();
    return lane_;
  }
  static void choose_lane();
  void commit_more();
  /// Gives a lane new records.
  void extend(std::size_t lane);

  static constexpr std::size_t kNoLane = kLanes;
  [[gnu::tls_model("initial-exec")]] static constinit thread_local std::size_t lane_;

  Block* first_ = nullptr;
  std::size_t committed_ = 0;  ///< records with host memory behind them
  std::size_t given_ = 0;      ///< committed records that belong to a lane
  std::array<Lane, kLanes> lanes_;
  std::vector<std::uint8_t> lane_of_;  ///< by record / kLaneRecords
};

}  // namespace berth
