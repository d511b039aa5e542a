// SPDX-License-Identifier: Apache-2.0
// A heap's memory as granules of one arena: the whole address range is one segment, and blocks
// without physical memory are `unmapped`.
//
// Growth maps the fewest new granules that complete a block, in one of two ways: next to free
// memory, to form a large enough hole; or, if that needs fewer granules, as parts of a stitched
// block, which may contain free memory from anywhere (Stitcher, Windows). Often no new granule is
// needed. Any granule that is free from end to end can be unmapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "memory/source/arena.hpp"
#include "memory/source/physical_memory.hpp"
#include "memory/source/segment_source.hpp"
#include "memory/source/stitch.hpp"
#include "memory/source/windows.hpp"

namespace berth {

/// Threads  As SegmentSource.
class ArenaSegments final : public SegmentSource {
 public:
  /// The treatment of windows without a block.
  enum class WindowRetention {
    bounded,  ///< a bounded number
    kept,     ///< all, until their memory is returned: graphs may use their addresses
  };

  /// Adds the arena's range to `heap`. `device_bytes` is the memory that the device has in all.
  /// Errors  DriverError.
  ArenaSegments(DeviceContext& context, BlockHeap& heap, std::size_t granule_bytes,
                std::size_t device_bytes, WindowRetention retention = WindowRetention::bounded,
                const MappingNotices& notices = {});

  [[nodiscard]] std::size_t capacity_bytes() const override { return device_bytes_; }
  [[nodiscard]] bool contains(std::uintptr_t address) const { return arena_.contains(address); }
  [[nodiscard]] bool needs_idle_memory() const override {
    return retention_ == WindowRetention::bounded && windows_.is_over_bound();
  }
  void set_idle_memory(const BlockHeap& heap, std::span<const Freed> idle) override;

  std::optional<Growth> plan_growth(BlockHeap& heap, std::size_t bytes, OwnerId owner,
                                    Stitching stitching) override;
  bool obtain(Growth& growth) override;
  Block* finish_growth(BlockHeap& heap, const Growth& growth, std::size_t bytes_requested,
                       OwnerId owner) override;
  /// Never called: finish_growth() does not throw.
  void give_back_growth(const Growth&) noexcept override {}
  void cancel_growth(BlockHeap& heap, const Growth& growth) override;
  [[nodiscard]] std::optional<std::uintptr_t> address_of_stitched(
      std::span<const HeapExtent> parts) override;
  std::vector<Range> plan_return(BlockHeap& heap, std::size_t bytes) override;
  DriverRefusal give_back(Range& range) noexcept override;
  void separate_refused(BlockHeap& heap, std::vector<Range>& ranges,
                        std::size_t index) noexcept override;
  bool keep(const Range& range) noexcept override;
  [[nodiscard]] std::size_t refused_bytes() const override { return arena_.stuck_bytes(); }
  DriverRefusal retry_refused() noexcept override {
    const DriverRefusal shown = windows_.retry_refused();
    return last_of(shown, arena_.retry_stuck());
  }
  void finish_return(BlockHeap& heap, Range&& range) override;
  void grant_access(DeviceContext& user) override {
    windows_.grant_access(access_by(user));
    arena_.grant_access(access_by(user));
  }
  void require_sleep() const override {}
  DriverRefusal sleep(const std::set<std::uintptr_t>& stitched) override;
  [[nodiscard]] std::size_t asleep_bytes() const override { return arena_.asleep_bytes(); }
  bool wake() override;
  void give_back_all(const BlockHeap&) noexcept override {
    windows_.drop_all();
    arena_.unmap_all();
  }

  /// New memory next to free memory, which makes a hole.
  struct Candidate {
    Block* unmapped = nullptr;
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
    std::size_t left_behind = 0;  ///< of the hole, beside the block
  };

 private:
  static DriverRefusal last_of(const DriverRefusal& shown, const DriverRefusal& unmapped) {
    return unmapped ? unmapped : shown;
  }
  /// Mappings that windows keep, for each granule that has memory. Recorded programs need up to
  /// nine; the rest is margin. With half of it, ten streams that take turns map four times as much.
  /// This number determines the address space: 3 TiB for a device of 80 GiB, far below the
  /// available 128 TiB.
  static constexpr std::size_t kMappingsPerGranule = 16;
  static constexpr std::size_t kGranulesMin = 256;  ///< a smaller heap counts as this many

  [[nodiscard]] std::optional<Candidate> fewest_fresh(const BlockHeap& heap, std::size_t bytes,
                                                      OwnerId owner) const;
  [[nodiscard]] bool is_cheaper(const Stitch& stitch, const Candidate& plain) const;
  Growth plan_stitch(BlockHeap& heap, const Stitch& stitch);
  /// Address space for new granules.
  void hold_fresh(BlockHeap& heap, std::size_t bytes);
  bool map_fresh(const Growth& growth);
  void unmap_fresh(const Growth& growth, std::size_t count) noexcept;
  DriverRefusal hold_refused(const Block& held) noexcept {
    return windows_.hold_refused(granule_at(held.address), granule_at(held.end()));
  }
  DriverRefusal unmap(const Block& held) noexcept;
  // arena_segments_windows.cpp
  void keep_windows_in_bounds();
  bool map_window(Growth& growth);
  /// The address of a block of `parts`, of which the first begins at `first`, if it needs no new
  /// mapping. Otherwise `sequence_` has their granules.
  template <class Parts>
  std::optional<std::uintptr_t> find_stitched(const Parts& parts, std::uintptr_t first);
  [[nodiscard]] std::size_t granules_of(std::size_t bytes) const {
    return bytes / arena_.granule_bytes();
  }
  [[nodiscard]] GranuleNumber granule_at(std::uintptr_t address) const {
    return static_cast<GranuleNumber>((address - arena_.address()) / arena_.granule_bytes());
  }

  const std::size_t device_bytes_;
  const WindowRetention retention_;
  Arena arena_;
  Windows windows_;
  Stitcher stitcher_;
  std::size_t granules_mapped_ = 0;  ///< at home
  // Of the growth in progress, kept for their capacity.
  std::vector<Block*> fresh_;
  std::vector<Extent> extents_;
  std::vector<std::size_t> order_;
  std::vector<Block*> parts_;
  GranuleSequence sequence_;
};

}  // namespace berth
