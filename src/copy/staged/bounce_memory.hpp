// SPDX-License-Identifier: Apache-2.0
// Pinned memory for small copies of pageable memory. Each copy takes the next part of a block.
//
// A block has two halves. When a half is used up, an event is recorded behind its copies, and the
// block continues with the other half if the copies of that half are complete. So a thread keeps
// using the same memory, which is in its processor's cache. This requires that all copies of a half
// are on one stream. A block that several streams have used, or whose other half is still in use,
// is freed instead, and the pinned allocator reuses it when the streams have completed its copies.
// The cost is one event for each stream and block, not for each copy.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "berth/device_registry.hpp"
#include "berth/pinned_allocator.hpp"
#include "berth/stream.hpp"

#include "copy/operand/copy_sides.hpp"
#include "device/stream_observer.hpp"
#include "driver/driver.hpp"
#include "pinned/staging_block.hpp"
#include "stream/join.hpp"

namespace berth {

/// A block belongs to one copy at a time, from take() until the Part is destroyed. No thread waits
/// for a block of another thread: it takes another block, or allocates one. So the number of blocks
/// is the largest number of concurrent copies.
/// Threads  Safe from any thread; a Part belongs to one.
class BounceMemory {
  struct Block;

 public:
  static constexpr std::size_t kPartBytesMax = std::size_t{64} << 10;

  /// `events_of` provides the marks, and outlives this object.
  BounceMemory(const DeviceRegistry& registry, PinnedAllocator& pinned, EventPoolOf events_of);
  ~BounceMemory();
  BounceMemory(const BounceMemory&) = delete;
  BounceMemory& operator=(const BounceMemory&) = delete;

  class Part {
   public:
    /// Empty.
    Part() = default;
    Part(Part&& other) noexcept
        : memory_(other.memory_),
          block_(std::exchange(other.block_, nullptr)),
          begin_(other.begin_),
          word_bytes_(other.word_bytes_) {}
    Part& operator=(Part&&) = delete;
    ~Part() {
      if (block_ != nullptr) memory_->put_back(block_);
    }

    explicit operator bool() const { return block_ != nullptr; }
    [[nodiscard]] std::byte* data() const;
    /// Called after a copy to data() has been submitted to `stream`. Submits a write of a word of
    /// this memory, and reads the word for up to 100 us, without a driver call and so without a
    /// lock of the driver. Returns true if the stream has completed the copy and all earlier work;
    /// false if that is not known. If the word came too late, or was rejected, the next copies
    /// through this block skip all of this: 1, then 3, and up to 63.
    [[nodiscard]] bool completes_soon(StreamRef stream) const noexcept;
    /// The calling thread has observed that the stream has completed the copy and all earlier work.
    /// The next copy may use their memory, on any thread.
    void reuse(const Driver& driver) noexcept;

   private:
    friend class BounceMemory;
    Part(BounceMemory& memory, Block* block) : memory_(&memory), block_(block) {}
    [[nodiscard]] std::byte* begin() const;

    BounceMemory* memory_ = nullptr;
    Block* block_ = nullptr;
    std::size_t begin_ = 0;
    std::size_t word_bytes_ = 0;  ///< in front of the data; 0 for a copy to a device
  };

  /// Returns memory for a copy of up to kPartBytesMax that is about to be submitted to `stream`,
  /// which is neither captured nor the per-thread default stream. Empty if no pinned memory can be
  /// allocated without waiting for streams.
  /// Errors  As PinnedAllocator::record_stream(). DriverError.
  [[nodiscard]] Part take(std::size_t bytes, CopyDirection direction, StreamRef stream);

 private:
  static constexpr std::size_t kHalfBytes = 2 * kPartBytesMax;
  static constexpr std::size_t kAlignment = 64;  ///< parts share no cache line
  static constexpr std::size_t kSlots = 64;

  /// Counts retired streams. The handle of a retired stream may be reused for another stream.
  struct Retirements final : StreamObserver {
    void stream_retiring(DeviceContext&, CUstream) noexcept override { ++count; }
    std::atomic<std::uint64_t> count = 0;
  };
  /// Holds a block that no copy uses. Each slot has its own cache line, which avoids false sharing.
  struct alignas(kAlignment) Slot {
    std::atomic<Block*> block = nullptr;
  };

  [[nodiscard]] Block* take_block();
  void put_back(Block* block) noexcept;
  /// If a stream has ended since the last copy, known handles may belong to other streams now.
  void note_retirements(Block& block);
  /// Switches to the other half; false if its copies are not known to be complete.
  [[nodiscard]] bool switch_half(Block& block, StreamRef stream);
  /// Allocates new memory for a block. False if no memory is available.
  [[nodiscard]] bool renew(Block& block, StreamRef stream);
  /// Reuse of the memory waits for the stream from now on.
  void record(Block& block, StreamRef stream);

  const DeviceRegistry& registry_;
  PinnedAllocator& pinned_;
  const EventPoolOf events_of_;
  Retirements retirements_;
  std::array<Slot, kSlots> slots_;
};

}  // namespace berth
