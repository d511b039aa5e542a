// SPDX-License-Identifier: Apache-2.0
// The pinned memory through which pageable memory is copied. A copy smaller than a slot allocates
// its own size; a larger copy takes slots, uses them as a ring, and returns them when it is
// complete. When few slots are free, copies of one stream share slots and use them in turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "berth/allocator.hpp"
#include "berth/pinned_allocator.hpp"

#include "base/mutex.hpp"
#include "pinned/staging_block.hpp"

namespace berth {

class StagedCopy;
class StagingMemory;

/// The memory of one copy, or of several copies that share it. Returned to its StagingMemory with
/// the last reference.
struct StagingBlocks {
  explicit StagingBlocks(StagingMemory& of) : memory(of) {}
  ~StagingBlocks();
  StagingBlocks(const StagingBlocks&) = delete;
  StagingBlocks& operator=(const StagingBlocks&) = delete;

  StagingMemory& memory;
  std::size_t own_bytes = 0;  ///< of a copy smaller than a slot; 0: the blocks are slots
  std::vector<StagingBlock> blocks;

  [[nodiscard]] bool are_slots() const { return own_bytes == 0; }

  // Guarded by the lock of the HostWork that has all copies which use the blocks.
  std::weak_ptr<StagedCopy> latest;  ///< the copy that joined last
  const StagedCopy* user = nullptr;  ///< the copy that currently uses the slots
};

/// The staging memory of one copy: chunks of equal size, each in a slot, and two words, both 0.
struct Staging {
  std::shared_ptr<StagingBlocks> blocks = nullptr;
  /// The words of a copy that uses the blocks after other copies.
  StagingBlock words = nullptr;
  std::vector<std::byte*> slots = {};
  std::size_t slot_bytes = 0;
  std::uint32_t* gate = nullptr;      ///< written by the host, awaited by the device
  std::uint32_t* progress = nullptr;  ///< written by the device, read by the host: ProgressWord

  [[nodiscard]] std::byte* slot(std::size_t chunk) const { return slots[chunk % slots.size()]; }
  [[nodiscard]] bool is_shared() const { return words != nullptr; }
};

/// The staging memory of one device, placed near it.
/// Threads  Safe from any thread.
class StagingMemory {
 public:
  // The maxima of options.
  static constexpr std::size_t kSlotBytesMax = std::size_t{1} << 30;
  static constexpr std::size_t kSlotsMax = 65'536;

  /// Keeps up to `slots_max` slots of `slot_bytes`, which are allocated on demand. Copies smaller
  /// than a slot use up to as many bytes again, which are returned to `pinned`.
  StagingMemory(PinnedAllocator& pinned, Device device, std::size_t slot_bytes,
                std::size_t slots_max);
  ~StagingMemory();
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;

  /// The fraction of the slots that one copy may take.
  enum class Share {
    third,  ///< for a load of a file, which is faster if its slots stay in the processor's cache
    half,   ///< so that some slots remain for other copies
    all,    ///< for a copy whose source must be read before the call returns
  };

  /// For a copy of `bytes`: as many free slots as it can use and `share` permits. nullopt if no
  /// slot is free.
  /// Errors  OutOfMemory: no slot is in use, and no memory can be pinned. NotSupported.
  ///         DriverError.
  std::optional<Staging> try_take(std::size_t bytes, Share share = Share::half);
  /// For a stream without slots to share, if try_take() returned nullopt: at most two slots, unless
  /// kSpare times `slots_max` are in use. Slots beyond `slots_max` are not kept.
  /// Errors  Likewise.
  std::optional<Staging> try_take_spare(std::size_t bytes);
  /// As try_take(), without a bound. May wait for streams that use freed pinned memory.
  /// Errors  OutOfMemory: no memory can be pinned.
  Staging take_unbounded(std::size_t bytes, Share share = Share::half);
  /// Slots of `blocks` for a copy that uses them after the copies that hold them.
  /// Errors  OutOfMemory, NotSupported, DriverError.
  Staging share(std::shared_ptr<StagingBlocks> blocks, std::size_t bytes);
  /// Pinned bytes that copies hold now.
  [[nodiscard]] std::size_t bytes_in_use() const;

  static constexpr std::size_t kSpare = 4;

 private:
  friend struct StagingBlocks;
  enum class Bounds { enforced, spare, ignored };

  std::optional<Staging> take(std::size_t bytes, Share share, Bounds bounds);
  /// Memory of the copy's own size; nullopt if the bound is reached, or no memory can be pinned.
  std::optional<Staging> take_own_size(std::size_t bytes, Bounds bounds);
  std::optional<Staging> take_slots(std::size_t bytes, Share share, Bounds bounds);
  StagingBlock take_slot(Bounds bounds);
  [[nodiscard]] std::size_t slots_of(Share share) const;
  [[nodiscard]] std::size_t slots_bound(Bounds bounds) const;
  void give_back(StagingBlocks& blocks) noexcept;

  /// Waits for no stream within the bounds: the caller's next work may be what it waits for.
  StagingBlock pin(std::size_t bytes, Bounds bounds) {
    const bool may_wait = bounds == Bounds::ignored;
    return allocate_staging(pinned_, bytes, {.near = device_, .may_wait = may_wait});
  }

  PinnedAllocator& pinned_;
  const Device device_;
  const std::size_t slot_bytes_;
  const std::size_t slots_max_;
  const std::size_t one_chunk_max_;  ///< a copy of up to this size is not split

  mutable Mutex mutex_;
  std::vector<StagingBlock> idle_ BERTH_GUARDED_BY(mutex_);
  std::size_t slots_in_use_ BERTH_GUARDED_BY(mutex_) = 0;
  std::size_t own_bytes_in_use_ BERTH_GUARDED_BY(mutex_) = 0;
};

}  // namespace berth
