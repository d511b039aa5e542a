// SPDX-License-Identifier: Apache-2.0
// The pinned memory through which pageable memory is copied. A copy smaller than a slot takes
// memory of its own size; any other takes slots. It uses them as a ring, and returns them when it
// is complete. If little is left, copies of one stream share slots and use them in turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "berth/allocator.hpp"
#include "berth/pinned_allocator.hpp"

#include "base/mutex.hpp"
#include "memory/pinned/staging_block.hpp"

namespace berth {

class StagedCopy;
class StagingMemory;

/// The memory of one copy, or of several that share it. It returns to its StagingMemory with the
/// last reference.
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
  const StagedCopy* user = nullptr;  ///< the copy that uses the slots now
};

/// What one copy uses: chunks of equal size, each in a slot, and two words, both 0.
struct Staging {
  std::shared_ptr<StagingBlocks> blocks = nullptr;
  /// The words, if other copies use the blocks first.
  StagingBlock words = nullptr;
  std::vector<std::byte*> slots = {};
  std::size_t slot_bytes = 0;
  std::uint32_t* gate = nullptr;      ///< the host writes it, and the device waits for it
  std::uint32_t* progress = nullptr;  ///< the device writes it, and the host reads it: ProgressWord

  [[nodiscard]] std::byte* slot(std::size_t chunk) const { return slots[chunk % slots.size()]; }
  [[nodiscard]] bool is_shared() const { return words != nullptr; }
};

/// Of one device, and near it.
/// Threads  Safe from any thread.
class StagingMemory {
 public:
  // The maxima of options.
  static constexpr std::size_t kSlotBytesMax = std::size_t{1} << 30;
  static constexpr std::size_t kSlotsMax = 65'536;

  /// At most `slots_max` slots of `slot_bytes`, which are kept once they have been needed. Copies
  /// smaller than a slot use as many bytes again, which go back to `pinned`.
  StagingMemory(PinnedAllocator& pinned, Device device, std::size_t slot_bytes,
                std::size_t slots_max);
  ~StagingMemory();
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;

  /// How many of the slots one copy may take.
  enum class Share {
    half,  ///< so that some are left for others
    all,   ///< for a copy whose source has to be read at once
  };

  /// For a copy of `bytes`: as many slots as it can use, as are free, and as `share` allows.
  /// nullopt if none is free.
  /// Errors  OutOfMemory: nothing is in use, and nothing can be pinned. NotSupported. DriverError.
  std::optional<Staging> try_take(std::size_t bytes, Share share = Share::half);
  /// If try_take() has nothing, for a stream that has nothing to share: two slots at most, unless
  /// kSpare times `slots_max` are in use. Slots beyond `slots_max` are not kept.
  /// Errors  Likewise.
  std::optional<Staging> try_take_spare(std::size_t bytes);
  /// The same without bounds. May wait for streams that use freed pinned memory.
  /// Errors  OutOfMemory: nothing can be pinned.
  Staging take_beyond(std::size_t bytes, Share share = Share::half);
  /// Of `blocks`, which are slots, for a copy that uses them after the copies that have them.
  /// Errors  OutOfMemory, NotSupported, DriverError.
  Staging share(std::shared_ptr<StagingBlocks> blocks, std::size_t bytes);
  /// Pinned bytes that copies hold now.
  [[nodiscard]] std::size_t bytes_in_use() const;

  static constexpr std::size_t kSpare = 4;

 private:
  friend struct StagingBlocks;
  enum class Bounds { held, spare, ignored };

  std::optional<Staging> take(std::size_t bytes, Share share, Bounds bounds);
  /// Memory of the copy's own size; nullopt if too much of it is in use, or it cannot be pinned.
  std::optional<Staging> take_own_size(std::size_t bytes, Bounds bounds);
  std::optional<Staging> take_slots(std::size_t bytes, Share share, Bounds bounds);
  StagingBlock take_slot(Bounds bounds);
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
  const std::size_t one_chunk_max_;  ///< a copy of up to so many bytes is not cut

  mutable Mutex mutex_;
  std::vector<StagingBlock> idle_ BERTH_GUARDED_BY(mutex_);
  std::size_t slots_in_use_ BERTH_GUARDED_BY(mutex_) = 0;
  std::size_t own_bytes_in_use_ BERTH_GUARDED_BY(mutex_) = 0;
};

}  // namespace berth
