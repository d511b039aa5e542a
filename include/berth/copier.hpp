// SPDX-License-Identifier: Apache-2.0
// Copies between host and device, and between devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "berth/export.h"
#include "berth/stream.hpp"

namespace berth {

class DeviceRegistry;
class PinnedAllocator;

struct CopierOptions {
  /// Size of one slot of a device's staging ring, through which pageable memory travels. 64 KiB or
  /// more, a multiple of 4 KiB.
  std::size_t staging_slot_bytes = std::size_t{4} << 20;
  /// Slots of one device's ring, 2 or more.
  std::size_t staging_slots = 8;
};

struct CopyCounters {
  std::uint64_t copies_direct = 0;  ///< one driver call: pinned or device memory on both sides
  std::uint64_t copies_staged = 0;  ///< through the staging ring
  std::uint64_t copies_host = 0;    ///< host to host
  std::uint64_t bytes_copied = 0;   ///< of all of them
  std::uint64_t staging_waits = 0;  ///< times a caller waited because every slot was in use
};

/// Each range must lie in one allocation, of any kind: device memory of berth or of anything else
/// in this process, pinned memory, pageable memory. The two ranges must not overlap. 0 bytes is no
/// operation.
///
/// Threads  Safe from any thread, except from inside a CUDA host callback.
class BERTH_API Copier {
 public:
  Copier(const DeviceRegistry& registry, PinnedAllocator& pinned, CopierOptions options);
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  /// Copies in the order of `stream`, which must be a stream of the device of one side. To wait for
  /// the copy alone, record an event on the stream after it (Runtime::record()).
  ///
  /// Source    Device and pinned sources are read when the stream gets there: they stay as they are
  ///           until then. A pinned block of berth's may be freed at once, its reuse waits. A
  ///           pageable source has been read when the call returns, and may be changed or freed at
  ///           once.
  /// Target    Has the bytes when the stream has passed the copy. Stays valid until then; a
  ///           pageable target too.
  /// Blocking  Pinned and device memory: never. Pageable memory: while every slot of the staging
  ///           ring is in use, the caller waits for the oldest; copyCounters().staging_waits counts
  ///           it. Host to host copies are done when the call returns, and do not wait for the
  ///           stream.
  /// Captures  On a captured stream a copy of pinned or device memory becomes part of the graph.
  /// Errors    InvalidArgument: null, ranges that overlap or wrap around, a stream of a device that
  ///           neither side belongs to. StreamCaptured: the stream is captured, and the host would do
  ///           the copy or a part of it: pageable memory, host to host; nothing has been copied, and
  ///           the capture goes on. DriverError: refused by the driver. Parts of a staged copy may
  ///           have been made then; a pageable target is written no more.
  void copy_async(void* target, const void* source, std::size_t bytes, StreamRef stream);

  /// copy_async, then waits for the stream.
  /// Errors  StreamCaptured: the stream is captured; nothing has been copied.
  void copy(void* target, const void* source, std::size_t bytes, StreamRef stream);

  /// Copies between host memory, pinned or pageable, on the calling thread and without a stream: works
  /// without devices, and in a forked child.
  /// Errors  InvalidArgument: null, ranges that overlap or wrap around; memory of a device that berth
  ///         has used.
  void copy(void* target, const void* source, std::size_t bytes);

  /// Sets every byte of device memory in the order of `stream`.
  /// Errors  InvalidArgument: null, or memory that is not the stream's device's.
  void fill_async(void* target, std::uint8_t value, std::size_t bytes, StreamRef stream);

  [[nodiscard]] CopyCounters counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth
