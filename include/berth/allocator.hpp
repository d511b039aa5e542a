// SPDX-License-Identifier: Apache-2.0
// The base class of berth's allocators, and the owner of one block.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "berth/device.hpp"
#include "berth/export.h"
#include "berth/memory_snapshot.hpp"
#include "berth/stream.hpp"

namespace berth {

/// Blocks of device and pinned memory are multiples of this many bytes and aligned to it, the
/// alignment that users of cuMemAlloc expect.
inline constexpr std::size_t kBlockAlignment = 512;

/// A stream-ordered allocator: the common interface of DeviceAllocator, MemoryPool, PinnedAllocator
/// and HostAllocator.
/// Threads  Every function is safe from any thread, except from inside a CUDA host callback.
/// Fork     In a child made by fork(), no function waits or calls the driver. deallocate(),
///          retire_stream() and destructors have no effect, owns() is false, and device() works.
///          The other functions throw NotSupported, or return it (try_allocate()), even if they
///          make no driver call, such as counters(). HostAllocator differs.
class BERTH_API Allocator {
 public:
  virtual ~Allocator() = default;

  /// The device whose memory this is, with its ordinal; `cpu` for pinned and pageable host memory.
  [[nodiscard]] virtual Device device() const noexcept = 0;

  /// Allocates a block that work submitted to `stream` from now on may use, for code that works
  /// with any allocator. Free it with deallocate(), which is ordered after that work. The content
  /// is undefined. null for 0 bytes.
  ///
  /// Device memory is ordered on `stream`. Host memory is ordered on no stream: the block is
  /// recorded for it, as by record_stream(), and pinned memory is placed near its device.
  /// Blocking  As allocate() of the allocator.
  /// Errors    As allocate() and record_stream() of the allocator. Nothing is allocated then.
  [[nodiscard]] virtual void* allocate_raw(std::size_t bytes, StreamRef stream) = 0;

  /// Frees a block of this allocator. null: no effect.
  ///
  /// The free is stream-ordered: work submitted before may still use the block. The stream that the
  /// block was allocated on reuses it without a wait. Any other stream, including streams passed to
  /// record_stream() and record_use(), reuses it only after their work.
  /// Blocking  Never waits for the GPU. Makes driver calls only for streams passed to
  ///           record_stream(): for each one that berth owns, a capture query, and an event record
  ///           if the stream is not captured. For a stream that berth does not own, the next call
  ///           that names the stream makes both calls, because its handle may be gone now.
  ///           HostAllocator makes them here for every stream. Streams passed to record_use() cost
  ///           no call.
  /// Errors    InvalidArgument: a pointer that is not from this allocator, points into a block, or
  ///           was freed before. Nothing is changed.
  virtual void deallocate(void* data) = 0;

  /// Declares that work submitted to `stream` uses the block at `data`. null: no effect.
  ///
  /// After deallocate(), the block is not reused before all work that `stream` holds at the time of
  /// the free is done, including work that does not use the block (see record_use()). The block's
  /// own stream needs no record. Recording a stream twice is the same as recording it once. A
  /// stream that berth owns may be destroyed at any time, even while another thread frees the
  /// block. For other streams, call retire_stream() before they are destroyed.
  /// Blocking  Never waits for the GPU. Makes no driver call, with one exception: if berth does not
  ///           own the stream and freed blocks still await an event of it, a capture query, and an
  ///           event record if the stream is not captured.
  /// Errors    InvalidArgument: not a live block of this allocator, the per-thread default stream,
  ///           a stream of another Runtime, or, for device memory, of another device; nothing is
  ///           recorded. DriverError: no event could be recorded for freed blocks, which wait for
  ///           the next one; the block at `data` is recorded.
  virtual void record_stream(void* data, StreamRef stream) = 0;

  /// Declares that the work which `stream` holds now uses the block at `data`, and that later work
  /// does not, unless it is recorded too. null: no effect.
  ///
  /// After deallocate(), the block is not reused before that work is done; work submitted to
  /// `stream` later does not delay its reuse. Of two uses on one stream, the later one covers both.
  /// A record_stream() for the same stream, before or after, covers all uses. A captured stream
  /// cannot be marked, so this call then acts as record_stream(). The block's own stream needs no
  /// record. The stream may be destroyed as soon as this call has returned; if berth does not own
  /// it, call retire_stream() first.
  /// Blocking  Never waits for the GPU. Makes a capture query and records an event on `stream`;
  ///           neither if it is the block's own stream or if record_stream() covers the use.
  /// Errors    InvalidArgument: not a live block of this allocator, the per-thread default stream,
  ///           a stream of another Runtime, or, for device memory, of another device. DriverError:
  ///           no event could be recorded. Exhausted: the maximum number of events is in use
  ///           (EventPoolOptions). Nothing is changed then, and the caller must wait for the work.
  virtual void record_use(void* data, StreamRef stream) = 0;

  /// Returns cached memory to the driver until at most `bytes_to_keep` bytes are reserved, as far
  /// as blocks in use permit. 0 returns all that can be returned. The result is the number of bytes
  /// returned.
  /// Blocking  Waits for the work of streams whose cached memory it returns, and for uses by other
  ///           streams that freed blocks await. If memory awaits a stream that berth does not own
  ///           and cannot query, waits until the device is idle. Hits of the cache continue.
  /// Errors    DriverError: the driver refuses to take back memory, to query a stream or to wait,
  ///           and less was returned than the call wanted. An event that it refuses to record for a
  ///           deferred free is reported instead, and recorded by a later call; the block stays
  ///           pending. Memory returned before stays returned. Memory that the driver refused stays
  ///           reserved, and a later request may use it; this call, and a request that is short of
  ///           memory, try again to return it.
  virtual std::size_t trim(std::size_t bytes_to_keep = 0) = 0;

  /// Returns memory that was not needed for `age`: the amount by which reserved bytes exceed the
  /// peak of active bytes in the last `age`. The result is the number of bytes returned.
  ///
  /// Call it periodically. The measurement has the resolution of the calls: the interval between
  /// two calls in which `age` begins counts in full. The first call only starts the measurement,
  /// unless `age` is 0, which returns all cached memory without pending work.
  /// Blocking  Leaves memory with pending work for the next call. Cache hits of other threads
  ///           continue meanwhile. Device memory that is mapped is returned without a wait for the
  ///           GPU. Other memory (pinned, or without DeviceAllocatorOptions::virtual_memory) is
  ///           returned by cuMemFreeHost and cuMemFree, in which the driver waits for all work.
  /// Errors    As trim().
  virtual std::size_t release_unused(std::chrono::nanoseconds age) = 0;

  /// Must be called before a stream that berth does not own is destroyed, if blocks were allocated
  /// or recorded on it. Stream and StreamPool call it themselves.
  ///
  /// Memory cached for the stream becomes available to other streams after its work, and a later
  /// stream with the same handle counts as a new stream. DeviceAllocator and MemoryPool notify
  /// every part of the Runtime that has memory or library handles of the stream; PinnedAllocator
  /// and HostAllocator only retire it for themselves. Live blocks of the stream stay valid, and
  /// when they are freed their reuse follows the same rule. If the handle is already invalid, that
  /// is reported, and the memory becomes available when the device is idle.
  /// Blocking  A query and an event record if the stream has memory. Waits for its work only if no
  ///           event can be recorded.
  virtual void retire_stream(StreamRef stream) noexcept = 0;

  /// The counters, from one reading.
  [[nodiscard]] virtual MemoryCounters counters() const = 0;
  /// Sets the peak of every gauge to its current value.
  virtual void reset_peaks() = 0;
  /// Copies the state of every block. Other calls of the allocator wait meanwhile.
  [[nodiscard]] virtual MemorySnapshot snapshot() const = 0;

  /// Checks every invariant and stops the process at the first violation: blocks tile their
  /// segments, bytes add up through every counter, adjacent free blocks are coalesced unless there
  /// is a reason, and each free block is in exactly one index. For tests and debugging; visits
  /// every block.
  virtual void validate() const = 0;
};

/// A live block: what Runtime::find() returns.
struct MemoryBlock {
  /// The allocator that frees it. For a block of a private pool, the device's allocator.
  Allocator* allocator;
  Device device;      ///< as Allocator::device()
  void* data;         ///< the start of the block
  std::size_t bytes;  ///< as requested
};

/// Owns one block and frees it on destruction. Movable. Empty (null, 0 bytes) if it owns nothing,
/// which is also the result of allocating 0 bytes. Must not outlive its allocator.
/// Threads  One thread at a time; may be destroyed on another thread.
class [[nodiscard]] Allocation {
 public:
  Allocation() noexcept = default;
  /// Takes ownership of a block of `allocator`; null: empty. `bytes` is what bytes() returns.
  Allocation(Allocator& allocator, void* data, std::size_t bytes) noexcept
      : allocator_(&allocator), data_(data), bytes_(bytes) {}
  /// Takes ownership of a block of `allocator` that is ordered on `stream`.
  Allocation(Allocator& allocator, void* data, std::size_t bytes, StreamRef stream) noexcept
      : allocator_(&allocator), data_(data), bytes_(bytes), stream_(stream) {}
  ~Allocation() { reset(); }
  Allocation(Allocation&& other) noexcept
      : allocator_(other.allocator_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        stream_(other.stream_) {}
  Allocation& operator=(Allocation&& other) noexcept {
    if (this != &other) {
      reset();
      allocator_ = other.allocator_;
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
      stream_ = other.stream_;
    }
    return *this;
  }

  /// The block; null if empty.
  [[nodiscard]] void* data() const noexcept { return data_; }
  /// The requested size, before rounding.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }
  /// Allocator::device(); `cpu` if empty.
  [[nodiscard]] Device device() const noexcept {
    return data_ != nullptr ? allocator_->device() : Device::cpu();
  }
  /// The stream that the block was allocated on, which must exist if it is used. nullopt for host
  /// memory, which is ordered on no stream, and if empty.
  [[nodiscard]] std::optional<StreamRef> stream() const noexcept {
    if (data_ == nullptr || stream_.context_ == nullptr) return std::nullopt;
    return stream_;
  }

  /// Allocator::record_stream() for this block; no effect if empty.
  void record_stream(StreamRef stream) const {
    if (data_ != nullptr) allocator_->record_stream(data_, stream);
  }
  /// Allocator::record_use() for this block; no effect if empty.
  void record_use(StreamRef stream) const {
    if (data_ != nullptr) allocator_->record_use(data_, stream);
  }

  /// Gives up ownership and returns the block, which the caller must free with
  /// Allocator::deallocate().
  [[nodiscard]] void* release() noexcept {
    bytes_ = 0;
    return std::exchange(data_, nullptr);
  }
  /// Frees the block now. This fails only after memory corruption, and then ends the process.
  void reset() noexcept {
    if (data_ != nullptr) allocator_->deallocate(release());
  }

 private:
  Allocator* allocator_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  StreamRef stream_{nullptr};
};

}  // namespace berth
