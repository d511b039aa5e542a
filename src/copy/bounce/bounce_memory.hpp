// SPDX-License-Identifier: Apache-2.0
// Pinned memory through which small copies of pageable memory travel. A copy takes the next part of a block;
// a block that is used up is freed, and the pinned allocator reuses it once the streams have passed its
// copies: one event for each stream and block, none for each copy.
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

#include "device/stream_observers.hpp"

namespace berth {

/// A block belongs to one copy at a time, from take() until the part goes away. No thread waits for
/// another one's block: it takes one of the others, or a new one. So there are as many blocks as copies have
/// been under way at the same time.
/// Threads  Safe from any thread, a Part from one.
class BounceMemory {
  struct Block;

 public:
  static constexpr std::size_t kPartBytesMax = std::size_t{64} << 10;

  BounceMemory(const DeviceRegistry& registry, PinnedAllocator& pinned);
  ~BounceMemory();
  BounceMemory(const BounceMemory&) = delete;
  BounceMemory& operator=(const BounceMemory&) = delete;

  class Part {
   public:
    /// None.
    Part() = default;
    Part(Part&& other) noexcept
        : memory_(other.memory_),
          block_(std::exchange(other.block_, nullptr)),
          begin_(other.begin_) {}
    Part& operator=(Part&&) = delete;
    ~Part() {
      if (block_ != nullptr) memory_->put_back(block_);
    }

    explicit operator bool() const { return block_ != nullptr; }
    [[nodiscard]] std::byte* data() const;
    /// The stream has passed the copy: the next copy may have the part.
    void reuse() noexcept;

   private:
    friend class BounceMemory;
    Part(BounceMemory& memory, Block* block) : memory_(&memory), block_(block) {}

    BounceMemory* memory_ = nullptr;
    Block* block_ = nullptr;
    std::size_t begin_ = 0;
  };

  /// For a copy of up to kPartBytesMax that is about to be submitted to `stream`, which is not the per-thread
  /// default stream. None where pinned memory cannot be had without a wait for work of streams.
  /// Errors  As PinnedAllocator::record_stream().
  [[nodiscard]] Part take(std::size_t bytes, StreamRef stream);

 private:
  static constexpr std::size_t kBlockBytes = 4 * kPartBytesMax;
  static constexpr std::size_t kAlignment = 64;  ///< parts share no cache line
  static constexpr std::size_t kSlots = 64;

  /// Counts streams that go away. Of a stream recorded before, the handle may be another one's after.
  struct Retirements final : StreamObserver {
    void stream_retiring(DeviceContext&, CUstream) noexcept override { ++count; }
    std::atomic<std::uint64_t> count = 0;
  };
  /// A block that no copy uses. Each slot has a cache line of its own, which threads do not share.
  struct alignas(kAlignment) Slot {
    std::atomic<Block*> block = nullptr;
  };

  [[nodiscard]] Block* take_block();
  void put_back(Block* block) noexcept;
  /// New memory for a block whose own is used up.
  [[nodiscard]] bool renew(Block& block, StreamRef stream);
  /// The memory's reuse waits for the stream from now on.
  void record(Block& block, StreamRef stream);

  const DeviceRegistry& registry_;
  PinnedAllocator& pinned_;
  Retirements retirements_;
  std::array<Slot, kSlots> slots_;
};

}  // namespace berth
