// SPDX-License-Identifier: Apache-2.0
// Segments that are obtained and returned as a whole: segments of cuMemAlloc, if there is no
// virtual memory management, and pinned segments (pinned/pinned_segments.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/mutex.hpp"
#include "device/device_context.hpp"
#include "memory/source/mapping_notices.hpp"
#include "memory/source/segment_source.hpp"

namespace berth {

/// Threads  As SegmentSource; obtain() and give_back() of different ranges at once.
class WholeSegments : public SegmentSource {
 public:
  /// Requests below half of `segment_bytes`, at most the capacity, share segments of that size.
  /// Others get one of their own, rounded up to `rounding_bytes`.
  WholeSegments(std::size_t segment_bytes, std::size_t rounding_bytes, std::size_t capacity_bytes,
                const MappingNotices& notices = {})
      : segment_bytes_(std::min(segment_bytes, capacity_bytes)),
        rounding_bytes_(rounding_bytes),
        capacity_bytes_(capacity_bytes),
        notices_(notices) {}

  [[nodiscard]] std::size_t capacity_bytes() const override { return capacity_bytes_; }
  [[nodiscard]] std::size_t shared_bytes() const override {
    return align_up(segment_bytes_, rounding_bytes_);
  }
  [[nodiscard]] std::size_t least_bytes(const Growth&, std::size_t bytes) const override {
    return align_up(bytes, rounding_bytes_);
  }
  std::optional<Growth> plan_growth(BlockHeap& heap, std::size_t bytes, OwnerId owner,
                                    Stitching stitching) override;
  Block* finish_growth(BlockHeap& heap, const Growth& growth, std::size_t bytes_requested,
                       OwnerId owner) override;
  /// Errors  Also those of the notices.
  bool obtain(Growth& growth) final;
  void give_back_growth(const Growth& growth) noexcept override;
  void cancel_growth(BlockHeap&, const Growth&) override {}
  std::vector<Range> plan_return(BlockHeap& heap, std::size_t bytes) override;
  DriverRefusal give_back(Range& range) noexcept override;
  bool keep(const Range& range) noexcept override;
  [[nodiscard]] std::size_t refused_bytes() const override;
  DriverRefusal retry_refused() noexcept override;
  void finish_return(BlockHeap& heap, Range&& range) override;
  void cancel_return(BlockHeap& heap, Range&& range) override;
  void require_sleep() const override;
  DriverRefusal sleep(const std::set<std::uintptr_t>& stitched) override;
  bool wake() override { return true; }
  void give_back_all(const BlockHeap& heap) noexcept override;

 protected:
  struct Segment {
    std::uintptr_t address;
    std::size_t bytes;
    bool is_usable = true;  ///< otherwise the device has no access to it
  };
  /// For a segment that no heap has, and that the program does not know. What remains is kept.
  DriverRefusal destroy_or_keep(Segment segment) noexcept;

  /// Segments that are free as a whole and unowned, the smallest first.
  static std::vector<Block*> whole_segments(const BlockHeap& heap);
  /// Holds the first of them, up to `bytes`.
  static std::vector<Range> hold(BlockHeap& heap, std::span<Block* const> whole, std::size_t bytes);

 private:
  /// Obtains a segment from the driver, and sets its address. False if there is no memory left.
  /// Errors  DriverError.
  virtual bool create(Growth& growth) = 0;
  /// Returns a segment to the driver. If the driver refuses, this is reported, and the result is
  /// the refusal. `segment` is what remains at its address: nothing if its bytes are 0.
  virtual DriverRefusal destroy(Segment& segment) noexcept = 0;

  /// The same for a segment that the program knows, which is withdrawn first.
  DriverRefusal free_segment(Segment& segment) noexcept;
  void keep(const Segment& segment) noexcept;
  /// Uses a refused segment of this size, and returns the others, if the driver accepts them now.
  bool take_refused(Growth& growth);
  std::vector<Segment> exchange_refused() noexcept BERTH_EXCLUDES(refused_mutex_);

  const std::size_t segment_bytes_;
  const std::size_t rounding_bytes_;
  const std::size_t capacity_bytes_;
  const MappingNotices notices_;
  mutable Mutex refused_mutex_;
  /// Segments that no heap has, because the driver refused their return.
  std::vector<Segment> refused_ BERTH_GUARDED_BY(refused_mutex_);
};

/// Device memory from cuMemAlloc.
/// Threads  As WholeSegments.
class DeviceSegments final : public WholeSegments {
 public:
  DeviceSegments(DeviceContext& context, std::size_t segment_bytes, std::size_t device_bytes,
                 const MappingNotices& notices = {});

 private:
  bool create(Growth& growth) override;
  DriverRefusal destroy(Segment& segment) noexcept override;

  DeviceContext& context_;
};

}  // namespace berth
