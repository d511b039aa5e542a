// SPDX-License-Identifier: Apache-2.0
// A heap's memory as granules of one arena: the whole address range is one segment, and blocks
// without memory behind them are `unmapped`. Growth maps the fewest granules that make a block
// large enough; giving back unmaps any granule that is free from end to end.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "memory/arena.hpp"
#include "memory/segment_source.hpp"

namespace berth {

class ArenaSegments final : public SegmentSource {
 public:
  /// Adds the arena's range to `heap`. `device_bytes` is the memory that the device has in all.
  /// Errors  DriverError.
  ArenaSegments(DeviceContext& context, BlockHeap& heap, std::size_t granule_bytes,
                std::size_t device_bytes);

  [[nodiscard]] std::size_t capacity_bytes() const override { return device_bytes_; }
  [[nodiscard]] bool contains(std::uintptr_t address) const { return arena_.contains(address); }

  std::optional<Growth> plan_growth(BlockHeap& heap, std::size_t bytes, OwnerId owner) override;
  bool obtain(Growth& growth) override;
  void finish_growth(BlockHeap& heap, const Growth& growth, OwnerId owner) override;
  void cancel_growth(BlockHeap& heap, const Growth& growth) override;
  std::vector<Range> plan_return(BlockHeap& heap, std::size_t bytes) override;
  bool give_back(const Range& range) noexcept override;
  void finish_return(BlockHeap& heap, const Range& range) override;
  void give_back_all(const BlockHeap&) noexcept override { arena_.unmap_all(); }

 private:
  const std::size_t device_bytes_;
  Arena arena_;
};

}  // namespace berth
