// SPDX-License-Identifier: Apache-2.0
// The pinned memory through which pageable memory travels. A copy takes some of it, uses it round and
// round, and gives it back when it is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "berth/allocator.hpp"
#include "berth/pinned_allocator.hpp"

#include "base/mutex.hpp"

namespace berth {

/// What one copy has: slots of equal size, and a word, its gate, that the device can wait for.
struct Staging {
  std::vector<Allocation> blocks;
  std::vector<std::byte*> slots;
  std::size_t slot_bytes = 0;
  bool is_small = false;          ///< one slot of its own size, which is not kept
  std::uint32_t* gate = nullptr;  ///< 0

  [[nodiscard]] std::byte* slot(std::size_t chunk) const { return slots[chunk % slots.size()]; }
};

/// Of one device, and near it.
/// Threads  Safe from any thread.
class StagingMemory {
 public:
  /// At most `slots_max` blocks of `slot_bytes`, which are kept once they have been needed, and for
  /// small copies as many bytes again, which go back to `pinned`.
  StagingMemory(PinnedAllocator& pinned, Device device, std::size_t slot_bytes,
                std::size_t slots_max);

  /// How many of the slots one copy may have.
  enum class Share {
    half,  ///< so that others find some
    all,   ///< of a copy whose source has to be read at once
  };

  /// For a copy of `bytes`: as many slots as it can use, are free, and `share` allows. nullopt where
  /// none is.
  /// Errors  OutOfMemory: nothing is in use, and nothing can be pinned. NotSupported. DriverError.
  std::optional<Staging> try_take(std::size_t bytes, Share share = Share::half);
  /// The same beyond the bounds; what is beyond them is not kept.
  /// Errors  OutOfMemory: nothing can be pinned.
  Staging take_beyond(std::size_t bytes, Share share = Share::half);
  /// The device is done with it.
  void give_back(Staging staging) noexcept;
  [[nodiscard]] bool is_in_use() const;

 private:
  enum class Bounds : bool { held, ignored };

  std::optional<Staging> take(std::size_t bytes, Share share, Bounds bounds);
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
