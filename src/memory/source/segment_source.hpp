// SPDX-License-Identifier: Apache-2.0
// The source of a heap's memory. Growing and shrinking each have three steps, so that the driver is
// called without the heap's lock: choose (under the lock, no driver call), call the driver (no
// lock), apply the outcome to the heap (under the lock).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "device/device_context.hpp"
#include "memory/heap/block_heap.hpp"

namespace berth {

/// One growth or one return is under way at a time: the allocator's slow path sees to it.
class SegmentSource {
 public:
  struct Growth {
    std::size_t bytes = 0;  ///< to be obtained from the driver
    /// Where they go, held, in a heap that has address space already. Of the source, as `parts`,
    /// until its next plan.
    std::span<Block*> fresh{};
    std::uintptr_t address = 0;  ///< of the segment, or of the stitched block, once obtained
    /// Of a stitched block, in order, held, those of `fresh` included; none: memory for any block.
    std::span<Block*> parts{};
    std::size_t fresh_skipped_bytes = 0;  ///< of `fresh`, in front, not of the stitched block
    std::size_t fresh_surplus_bytes = 0;  ///< likewise, behind
    std::size_t granules_remapped = 0;    ///< mapped once more for it
    std::size_t block_bytes = 0;          ///< of the block that it makes room for
  };
  struct Range {
    Block* held;
    /// Where it is a whole segment: once the driver has it, another segment may get its addresses,
    /// also one of another heap, before finish_return().
    BlockHeap::Segments::node_type segment{};
  };

  virtual ~SegmentSource() = default;

  /// Bytes that can exist at most; a larger request cannot be served whatever is given back.
  [[nodiscard]] virtual std::size_t capacity_bytes() const = 0;

  /// Bytes of the segments that requests share; 0 where that is no question.
  [[nodiscard]] virtual std::size_t shared_bytes() const { return 0; }
  /// What a plan for `bytes`, which holds nothing, could do with, where the limit does not allow
  /// more.
  [[nodiscard]] virtual std::size_t least_bytes(const Growth& growth, std::size_t) const {
    return growth.bytes;
  }

  /// Whether growing would do better if it knew memory that no work uses any more.
  [[nodiscard]] virtual bool needs_idle_memory() const { return false; }
  /// Takes note of it, until the next growth is obtained: what is unowned now, and `idle`.
  virtual void set_idle_memory(const BlockHeap&, std::span<const Freed> /*idle*/) {}

  enum class Joining {
    no,
    yes,
    only,  ///< and nothing is obtained
  };
  /// What to obtain so that `owner` can have a block of `bytes`, as little as possible: nothing
  /// where free memory that lies apart can be joined. nullopt where there is no address space for
  /// it. `joining`: whether free memory may be joined.
  virtual std::optional<Growth> plan_growth(BlockHeap& heap, std::size_t bytes, OwnerId owner,
                                            Joining joining) = 0;
  /// False where the driver has no memory left. On failure nothing was obtained.
  /// Errors  DriverError.
  virtual bool obtain(Growth& growth) = 0;
  /// Puts what was obtained into the heap as free memory of `owner`, with what it needs of unowned
  /// memory beside it, and returns null; or returns the stitched block, allocated, or null where
  /// the host has no memory for that: then the parts are free. Where it throws, the heap is as
  /// before.
  virtual Block* finish_growth(BlockHeap& heap, const Growth& growth, std::size_t bytes_requested,
                               OwnerId owner) = 0;
  /// Undoes obtain(), where finish_growth() has thrown. False where the driver refuses.
  virtual bool give_back_growth(const Growth& growth) noexcept = 0;
  /// Undoes plan_growth().
  virtual void cancel_growth(BlockHeap& heap, const Growth& growth) = 0;

  /// Holds unowned free memory of at least `bytes` in all, as far as there is any that can be given
  /// back, largest first. Where that is in very many pieces, some of them: none are left when it
  /// holds none.
  virtual std::vector<Range> plan_return(BlockHeap& heap, std::size_t bytes) = 0;
  /// Gives a range back to the driver. False where the driver refuses, of which the report sink
  /// hears: the memory is still there then.
  virtual bool give_back(const Range& range) noexcept = 0;
  virtual void finish_return(BlockHeap& heap, Range&& range) = 0;
  /// Undoes plan_return() for a range that the driver refused: it is free again.
  virtual void cancel_return(BlockHeap& heap, Range&& range) {
    heap.release_held(*range.held, Block::State::free, kUnowned);
  }

  /// Lets work of another device reach all of it, now and from now on, where peer access of
  /// contexts alone does not.
  /// Errors  DriverError: it may reach what is there, and not what comes.
  virtual void grant_access(DeviceContext& /*user*/) {}

  /// Errors  NotSupported: this memory does not come back at its addresses.
  virtual void require_sleep() const = 0;
  /// Gives all memory back, live or not; addresses stay. Returns the bytes. The device must be done
  /// with it. `stitched`: where stitched blocks are. After require_sleep().
  virtual std::size_t sleep(const std::set<std::uintptr_t>& stitched) = 0;
  /// Obtains it again, at the same addresses. False where the driver has no memory left: asleep as
  /// before then.
  /// Errors  DriverError: likewise.
  virtual bool wake() = 0;

  /// The end: gives all back, live or not. The heap is not used again.
  virtual void give_back_all(const BlockHeap& heap) noexcept = 0;
};

}  // namespace berth
