// SPDX-License-Identifier: Apache-2.0
// The pinned memory through which pageable memory is copied. A copy takes some of it, uses it as a
// ring, and gives it back when it is complete. If little is left, copies of one stream share memory
// and use it in turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "berth/allocator.hpp"
#include "berth/pinned_allocator.hpp"

#include "base/mutex.hpp"

namespace berth {

class StagedCopy;
class StagingMemory;

/// The memory that slots are cut from. It returns to its StagingMemory with the last reference.
struct StagingBlocks {
  StagingBlocks(StagingMemory& of, std::size_t small_bytes) : memory(of), small(small_bytes) {}
  ~StagingBlocks();
  StagingBlocks(const StagingBlocks&) = delete;
  StagingBlocks& operator=(const StagingBlocks&) = delete;

  StagingMemory& memory;
  const std::size_t small;  ///< of a small copy: its bytes; else 0
  std::vector<Allocation> blocks;

  // Guarded by the lock of the HostWork that has all copies which use the blocks.
  std::weak_ptr<StagedCopy> latest;  ///< that joined last
  const StagedCopy* user = nullptr;  ///< whose turn it is
};

/// What one copy has: slots of equal size, and two words, both 0.
struct Staging {
  std::shared_ptr<StagingBlocks> blocks = nullptr;
  /// Where others use the blocks before it: the words are apart.
  std::optional<Allocation> words = std::nullopt;
  std::vector<std::byte*> slots = {};
  std::size_t slot_bytes = 0;
  std::uint32_t* gate = nullptr;      ///< the host writes it, and the device waits for it
  std::uint32_t* progress = nullptr;  ///< the other way round: ProgressWord

  [[nodiscard]] std::byte* slot(std::size_t chunk) const { return slots[chunk % slots.size()]; }
  [[nodiscard]] bool is_shared() const { return words.has_value(); }
};

/// Of one device, and near it.
/// Threads  Safe from any thread.
class StagingMemory {
 public:
  // What options may ask for.
  static constexpr std::size_t kSlotBytesMax = std::size_t{1} << 30;
  static constexpr std::size_t kSlotsMax = 65'536;

  /// At most `slots_max` blocks of `slot_bytes`, which are kept once they have been needed, and for
  /// small copies as many bytes again, which go back to `pinned`.
  StagingMemory(PinnedAllocator& pinned, Device device, std::size_t slot_bytes,
                std::size_t slots_max);

  /// How many of the slots one copy may have.
  enum class Share {
    half,  ///< so that others find some
    all,   ///< of a copy whose source has to be read at once
  };

  /// For a copy of `bytes`: as many slots as it can use, as are free, and as `share` allows.
  /// nullopt if none is free.
  /// Errors  OutOfMemory: nothing is in use, and nothing can be pinned. NotSupported. DriverError.
  std::optional<Staging> try_take(std::size_t bytes, Share share = Share::half);
  /// If try_take() has nothing, for a stream that has nothing to share: two slots at most, unless
  /// kSpare times `slots_max` are in use. Slots beyond `slots_max` are not kept.
  /// Errors  Likewise.
  std::optional<Staging> try_take_spare(std::size_t bytes);
  /// The same beyond all bounds.
  /// Errors  OutOfMemory: nothing can be pinned.
  Staging take_beyond(std::size_t bytes, Share share = Share::half);
  /// Of `blocks`, which are not of a small copy, for a copy that uses them after those that have
  /// them.
  /// Errors  OutOfMemory, NotSupported, DriverError.
  Staging share(std::shared_ptr<StagingBlocks> blocks, std::size_t bytes);
  [[nodiscard]] bool is_in_use() const;

  static constexpr std::size_t kSpare = 4;

 private:
  friend struct StagingBlocks;
  enum class Bounds { held, spare, ignored };

  std::optional<Staging> take(std::size_t bytes, Share share, Bounds bounds);
  [[nodiscard]] std::size_t slots_bound(Bounds bounds) const;
  void give_back(StagingBlocks& blocks) noexcept;
  std::optional<Staging> take_small(std::size_t bytes, Bounds bounds);
  std::optional<Allocation> take_slot(Bounds bounds);

  Allocation pin(std::size_t bytes) { return pinned_.allocate(bytes, {.near = device_}); }

  PinnedAllocator& pinned_;
  const Device device_;
  const std::size_t slot_bytes_;
  const std::size_t slots_max_;
  const std::size_t small_bytes_max_;

  mutable Mutex mutex_;
  std::vector<Allocation> idle_ BERTH_GUARDED_BY(mutex_);
  std::size_t slots_in_use_ BERTH_GUARDED_BY(mutex_) = 0;
  std::size_t small_bytes_in_use_ BERTH_GUARDED_BY(mutex_) = 0;
};

}  // namespace berth
