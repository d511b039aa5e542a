// SPDX-License-Identifier: Apache-2.0
// What the device allocator and the pinned allocator have in common, and the owner of one block.
#pragma once

#include <chrono>
#include <cstddef>
#include <utility>

#include "berth/export.h"
#include "berth/memory_snapshot.hpp"
#include "berth/stream.hpp"

namespace berth {

/// Threads  Every function is safe from any thread, except from inside a CUDA host callback.
/// Fork     In a child made by fork() nothing waits and nothing reaches the driver: allocations, and
///          whatever else may fail, fail with NotSupported; frees and destructors do nothing.
class BERTH_API Allocator {
 public:
  virtual ~Allocator() = default;

  /// Frees a block that this allocator gave out. null is no operation. Stream-ordered: work
  /// submitted before still has the block; it is reused without waiting on the stream that it was
  /// allocated on, and on any other, including those of record_stream() and record_use(), only behind
  /// their work.
  /// Blocking  Never waits for the GPU. No driver call but, for each stream of record_stream() that
  ///           berth owns, the question whether it is being captured, and an event record where it is
  ///           not. For streams that berth does not own the next call that names them makes both, as
  ///           their handles may be gone now; HostAllocator makes them here for each stream. None
  ///           for those of record_use().
  /// Errors    InvalidArgument: a pointer that this allocator did not give out, one inside a block,
  ///           or one freed before. Nothing is changed.
  virtual void deallocate(void* data) = 0;

  /// Declares that work submitted to `stream` uses the block at `data`: after deallocate(), the
  /// block is not reused before the work that `stream` holds at that time is done, also what has
  /// nothing to do with the block (see record_use()). The block's own stream needs no record;
  /// recording twice is recording once. null is no operation. The stream may go away before the block
  /// is freed, after, and, if berth owns it, while another thread frees the block; one that berth does
  /// not own is told to retire_stream() before.
  /// Blocking  Never waits for the GPU. No driver call but, for a stream that berth does not own and
  ///           whose event freed blocks still await, the question whether it is being captured, and
  ///           an event record where it is not.
  /// Errors    InvalidArgument: not a live block of this allocator, or (device memory) a stream of
  ///           another device. DriverError: the driver recorded no event for freed blocks, which wait
  ///           for the next; the block at `data` is recorded.
  virtual void record_stream(void* data, StreamRef stream) = 0;

  /// Declares that work which `stream` holds now uses the block at `data`, and later work does not,
  /// unless it is recorded as well: after deallocate(), the block is not reused before that work is
  /// done, whatever was submitted to `stream` since. The later of two uses on one stream stands for
  /// both; record_stream() for the same stream, before or after, stands for all. A stream that is
  /// being captured cannot be marked: then this is record_stream(). The block's own stream needs no
  /// record, and null is no operation. The stream may go away as soon as this has returned; one that
  /// berth does not own is told to retire_stream() before.
  /// Blocking  Never waits for the GPU. Asks whether `stream` is being captured, and records an
  ///           event on it; neither where it is the block's own, or record_stream() stands for all.
  /// Errors    InvalidArgument: not a live block of this allocator, the per-thread default stream,
  ///           or (device memory) a stream of another device. DriverError: the driver recorded no
  ///           event; Exhausted: as many are in use as there may be (EventPoolOptions). Nothing is
  ///           changed, and the work that was not recorded must be waited for.
  virtual void record_use(void* data, StreamRef stream) = 0;

  /// Gives cached memory back to the driver until at most `bytes_to_keep` are reserved, as far as
  /// blocks in use allow; 0 gives back all that can be. Returns the bytes given back.
  /// Blocking  Waits for the work of streams whose cached memory it returns; until the device is
  ///           idle, where that does not do and memory awaits a stream that berth does not own and
  ///           cannot ask. Other threads' cache hits go on meanwhile.
  virtual std::size_t trim(std::size_t bytes_to_keep = 0) = 0;

  /// Gives back what was not needed for `age`: as much as is reserved beyond the most that was active
  /// at one time since then. To be called from time to time: calls divide time into intervals, of
  /// which the one that `age` ends in counts in full. The first call only begins to watch, unless
  /// `age` is 0, which is all that is cached and idle. Returns the bytes given back.
  /// Blocking  Never waits for the GPU: memory with work pending is left for the next call. Other
  ///           threads' cache hits go on meanwhile.
  virtual std::size_t release_unused(std::chrono::nanoseconds age) = 0;

  /// To be called before a stream that berth does not own is destroyed, if blocks were allocated or
  /// recorded on it: memory cached for it becomes available to other streams behind its work, and a
  /// later stream that gets its handle is not taken for it. DeviceAllocator and MemoryPool do so for
  /// whatever has memory or libraries' handles in the Runtime, PinnedAllocator and HostAllocator for
  /// themselves. Stream and StreamPool do it by themselves. Live blocks of the stream stay valid, and
  /// are waited for by the same rule when they are freed. Where the handle is none any more, that is
  /// reported, and the memory is available once the device is idle.
  /// Blocking  A question and an event record where the stream has memory. Waits for its work only
  ///           where no event can be recorded.
  virtual void retire_stream(StreamRef stream) noexcept = 0;

  [[nodiscard]] virtual MemoryCounters counters() const = 0;
  /// Sets every gauge's peak to its current value.
  virtual void reset_peaks() = 0;
  /// Copies the state of every block. Blocks the allocator meanwhile.
  [[nodiscard]] virtual MemorySnapshot snapshot() const = 0;

  /// Checks every invariant (blocks tile their segments, bytes add up through every counter, no
  /// free neighbours left apart without a reason, each free block in exactly one index) and stops
  /// the process at the first that is broken. For tests and debugging: walks every block.
  virtual void validate() const = 0;
};

/// Owns one block and frees it on destruction. Moves. Empty (null, 0 bytes) where nothing is owned,
/// which is also what allocating 0 bytes gives. Must not outlive its allocator.
/// Threads  Like a pointer: one thread at a time; may be destroyed on another thread.
class [[nodiscard]] Allocation {
 public:
  Allocation() noexcept = default;
  Allocation(Allocator& allocator, void* data, std::size_t bytes) noexcept
      : allocator_(&allocator), data_(data), bytes_(bytes) {}
  ~Allocation() { reset(); }
  Allocation(Allocation&& other) noexcept
      : allocator_(other.allocator_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Allocation& operator=(Allocation&& other) noexcept {
    if (this != &other) {
      reset();
      allocator_ = other.allocator_;
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }

  [[nodiscard]] void* data() const noexcept { return data_; }
  /// As requested, before rounding.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

  /// Allocator::record_stream for this block; no operation on an empty Allocation.
  void record_stream(StreamRef stream) const {
    if (data_ != nullptr) allocator_->record_stream(data_, stream);
  }
  /// Allocator::record_use for this block; no operation on an empty Allocation.
  void record_use(StreamRef stream) const {
    if (data_ != nullptr) allocator_->record_use(data_, stream);
  }

  /// The block, which the caller frees from now on with Allocator::deallocate().
  [[nodiscard]] void* release() noexcept {
    bytes_ = 0;
    return std::exchange(data_, nullptr);
  }
  /// Frees the block now. Only memory corruption can make this fail, so it ends the process then.
  void reset() noexcept {
    if (data_ != nullptr) allocator_->deallocate(release());
  }

 private:
  Allocator* allocator_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace berth
