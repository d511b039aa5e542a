// SPDX-License-Identifier: Apache-2.0
// The source of a heap's memory. Growing and shrinking each have three steps, so that the driver is
// called without the heap's lock: choose (under the lock, no driver call), call the driver (no
// lock), apply the result to the heap (under the lock).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "device/device_context.hpp"
#include "heap/block_heap.hpp"
#include "heap/heap_extent.hpp"

namespace berth {

/// Threads  One growth or return at a time, under the allocator's slow lock.
class SegmentSource {
 public:
  struct Growth {
    std::size_t bytes = 0;  ///< to be obtained from the driver
    /// Held address space for them, if the heap has some already. It belongs to the source, as
    /// `parts` does, until its next plan.
    std::span<Block*> fresh{};
    std::uintptr_t address = 0;  ///< of the segment, or of the stitched block, once obtained
    /// The held parts of a stitched block in order, including `fresh`; none: memory for any block.
    std::span<Block*> parts{};
    std::size_t fresh_skipped_bytes = 0;  ///< at the start of `fresh`, not in the stitched block
    std::size_t fresh_surplus_bytes = 0;  ///< the same at the end
    std::size_t granules_remapped = 0;    ///< mapped a second time
    std::size_t block_bytes = 0;          ///< of the requested block
  };
  struct Range {
    Block* held;
    /// Of a whole segment: once the driver has it, another segment, possibly of another heap, may
    /// get its addresses before finish_return().
    BlockHeap::Segments::node_type segment{};
    enum class State {
      held,
      gone,     ///< the driver has it
      refused,  ///< the driver refuses it, and it is usable as before
    };
    State state = State::held;
  };

  virtual ~SegmentSource() = default;

  /// Maximum bytes that can exist; a larger request cannot be served, even if all memory is
  /// returned.
  [[nodiscard]] virtual std::size_t capacity_bytes() const = 0;

  /// Bytes of the segments that requests share; 0 if there are none.
  [[nodiscard]] virtual std::size_t shared_bytes() const { return 0; }
  /// The smallest growth that would serve a plan for `bytes`, which holds nothing.
  [[nodiscard]] virtual std::size_t least_bytes(const Growth& growth, std::size_t) const {
    return growth.bytes;
  }

  /// Whether the next growth should know which memory no work uses.
  [[nodiscard]] virtual bool needs_idle_memory() const { return false; }
  /// That memory: the memory that is unowned now, and `idle`. Valid until the next growth is
  /// obtained.
  virtual void set_idle_memory(const BlockHeap&, std::span<const Freed> /*idle*/) {}

  enum class Stitching {
    no,
    yes,
    only,  ///< no memory is obtained
  };
  /// The least memory to obtain for a block of `bytes` of `owner`: none if separate free memory can
  /// be stitched. nullopt if there is no address space. `stitching`: whether that is allowed.
  virtual std::optional<Growth> plan_growth(BlockHeap& heap, std::size_t bytes, OwnerId owner,
                                            Stitching stitching) = 0;
  /// False if the driver has no memory left. What was obtained before a failure is returned.
  /// Errors  DriverError.
  virtual bool obtain(Growth& growth) = 0;
  /// Adds the obtained memory to the heap as free memory of `owner`, with adjacent unowned memory
  /// that the block needs, and returns null; or returns the stitched block, allocated. Null also if
  /// the host has no memory for a stitched block: its parts are free then. If it throws, the heap
  /// is unchanged.
  virtual Block* finish_growth(BlockHeap& heap, const Growth& growth, std::size_t bytes_requested,
                               OwnerId owner) = 0;
  /// Undoes obtain() after finish_growth() has thrown.
  virtual void give_back_growth(const Growth& growth) noexcept = 0;
  /// Undoes plan_growth().
  virtual void cancel_growth(BlockHeap& heap, const Growth& growth) = 0;

  /// The address at which a stitched block of these parts was mapped, if that mapping still
  /// exists.
  [[nodiscard]] virtual std::optional<std::uintptr_t> address_of_stitched(
      std::span<const HeapExtent> /*parts*/) {
    return std::nullopt;
  }

  /// Holds unowned free memory that can be returned, largest first, until there are `bytes`. If it
  /// is in very many pieces, some of them; an empty result means that none is left.
  virtual std::vector<Range> plan_return(BlockHeap& heap, std::size_t bytes) = 0;
  /// Returns a range to the driver. If the driver refuses all or a part of it, this is reported,
  /// and the result is the refusal. The range is refused then, and still there, or gone for the
  /// heap, and the source keeps what can only serve a later growth.
  virtual DriverRefusal give_back(Range& range) noexcept = 0;
  /// Then replaces ranges[index] by its parts that are gone or refused, the first at that index.
  /// Parts that the host has no memory to separate are gone.
  virtual void separate_refused(BlockHeap& /*heap*/, std::vector<Range>& /*ranges*/,
                                std::size_t /*index*/) noexcept {}
  /// Announces a refused range again. False if the program refuses that: no heap may have the
  /// range then, and the source keeps it for a later growth.
  virtual bool keep(const Range& range) noexcept = 0;
  virtual void finish_return(BlockHeap& heap, Range&& range) = 0;
  /// Undoes plan_return() for a range that is kept: it is free again.
  virtual void cancel_return(BlockHeap& heap, Range&& range) {
    heap.release_held(*range.held, Block::State::free, kUnowned);
  }
  /// Bytes that the source keeps for a later growth, and that no heap has, because the driver
  /// refused to take them back.
  [[nodiscard]] virtual std::size_t refused_bytes() const = 0;
  /// Tries again to return them, and what the driver refused of sleep(). Returns the last refusal.
  virtual DriverRefusal retry_refused() noexcept = 0;

  /// Allows another device access to all present and future memory, if peer access of contexts does
  /// not suffice.
  /// Errors  DriverError: it may have access to present memory, and has none to future memory.
  virtual void grant_access(DeviceContext& /*user*/) {}

  /// Errors  NotSupported: this memory cannot be obtained again at its addresses.
  virtual void require_sleep() const = 0;
  /// Returns all memory, live or not, and keeps the addresses. The device must be done with it. If
  /// the driver refuses a part of it, that part is still there, and the result is the refusal.
  /// `stitched`: addresses of stitched blocks. After require_sleep().
  virtual DriverRefusal sleep(const std::set<std::uintptr_t>& stitched) = 0;
  /// Bytes of the heap that sleep() has returned.
  [[nodiscard]] virtual std::size_t asleep_bytes() const { return 0; }
  /// Obtains it again at the same addresses. False if the driver has no memory left; it is still
  /// asleep then.
  /// Errors  DriverError: it is still asleep.
  virtual bool wake() = 0;

  /// At the end: returns all memory, live or not. The heap is not used again.
  virtual void give_back_all(const BlockHeap& heap) noexcept = 0;
};

}  // namespace berth
