// SPDX-License-Identifier: Apache-2.0
// Copies between host and device, and between devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "berth/copier_options.hpp"
#include "berth/copy_counters.hpp"
#include "berth/copy_range.hpp"
#include "berth/copy_streams.hpp"
#include "berth/export.h"
#include "berth/file.hpp"
#include "berth/stream.hpp"
#include "berth/transfer.hpp"

namespace berth {

class Collectives;
class CompletionQueue;
class DeviceRegistry;
class PinnedAllocator;

/// Each range must lie in one allocation, of any kind: device memory of berth or of anything else
/// in this process, managed memory, pinned memory, pageable memory. The two ranges must not
/// overlap. 0 bytes is no operation.
///
/// Pageable memory is copied through pinned staging memory by threads of the copier. The stream
/// waits for them behind gates (cuStreamWaitValue32), the caller does not. Without gates
/// (CopierOptions::gates), or if no memory can be pinned, the driver copies by its own means. A
/// device that uses the host's page tables
/// (CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) copies pageable memory
/// directly, as it does pinned memory; copy_async() still stages a source.
///
/// Threads  Safe from any thread, except from inside a CUDA host callback.
/// Fork     In a child made by fork() copies without a stream work, all others fail with
///          NotSupported.
class BERTH_API Copier {
 public:
  /// Errors  InvalidArgument: an option out of range.
  Copier(const DeviceRegistry& registry, PinnedAllocator& pinned, CompletionQueue& completions,
         CopierOptions options);
  /// Waits for what goes through staging memory. What a device copies alone goes on.
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  /// Copies in the order of `stream`, which must be a stream of the device of one side, and returns
  /// at once. To wait for the copy alone there is the Transfer; an event that is recorded on the
  /// stream after it serves as well.
  ///
  /// Source    Is read when the stream gets there, so that earlier work of the stream may write it;
  ///           a pageable one also before. It stays valid until the transfer is over, whatever kind
  ///           of memory it is, and a pageable one as it is. A pinned block or registration of
  ///           berth's may be freed at once, also one of another Runtime: its reuse waits. Memory
  ///           that the program has pinned by other means stays as it is, and pinned, until the
  ///           transfer is over.
  /// Target    Has the bytes when the stream has passed the copy. Stays valid until then.
  /// Blocking  On account of other streams: never. Pinned and device memory: never. Pageable
  ///           memory: never where it goes through staging memory; else, as
  ///           CopierOptions::on_staging_shortage says, the driver copies, and may wait for the
  ///           stream (CopyCounters::copies_by_driver). Each piece of a copy is work that the
  ///           driver queues, a thousand or so for a stream: a copy of pageable memory of more than
  ///           a GiB waits until its last part fits, and any call does where the queue is full.
  ///           docs/copies.md has all cases in one table. Host to host copies are done when the
  ///           call returns, and do not wait for the stream.
  /// Captures  On a captured stream a copy of pinned or device memory becomes part of the graph,
  ///           and the Transfer is empty. A block of a PinnedAllocator may be freed at any time:
  ///           it is reused when the graph and all executable graphs made of it are gone
  ///           (PinnedAllocator::keep_for_graph()). All other memory must stay valid for as long
  ///           as the graph may be launched.
  /// Errors    InvalidArgument: null, ranges that overlap or wrap around, a stream of a device that
  ///           neither side belongs to; memory that is not there, such as a device's that has been
  ///           freed to the driver, or a pageable target that this process cannot write, as far as
  ///           the first and the last byte tell (a range with such memory in between ends the
  ///           process with SIGSEGV); a block of pinned memory that is free; a range that runs past
  ///           the end of the pinned block in which it begins. What berth caches of a device's is
  ///           there, and not known to be free. StreamCaptured: the stream is captured, and the
  ///           host would do the copy or a part of it, or there are options that only an end can
  ///           satisfy; nothing has been copied, and the capture goes on. OutOfMemory:
  ///           StagingShortage::grow. DriverError: refused by the driver. std::bad_alloc itself:
  ///           operator new fails. After the last three the target's content is undefined, nothing
  ///           of the copy is under way, on_done is not called, keep_alive has been let go, and the
  ///           next copy works.
  Transfer start(void* target, const void* source, std::size_t bytes, StreamRef stream,
                 TransferOptions options = {});
  /// The same between the work of two streams, with {.target_stream = a, .source_stream = b}.
  /// CopyStreams says who waits for whom.
  /// Errors  As above; and where it fails after something was submitted, it returns when that is
  ///         done.
  Transfer start(void* target, const void* source, std::size_t bytes, const CopyStreams& streams,
                 TransferOptions options = {});

  /// start() for `rows` rows of `row_bytes`, each side with a pitch of its own: a part of a matrix,
  /// a padded image. Either number 0 is no operation. All rows of a side lie in one allocation.
  /// Between two devices each row is a copy of its own.
  /// Errors  InvalidArgument also: a pitch below `row_bytes`. Sides with the same pitch may be
  ///         columns of one matrix, as long as they share none; all others must not overlap from
  ///         the first byte to the last.
  Transfer start_rows(PitchedTarget target, PitchedSource source, std::size_t row_bytes,
                      std::size_t rows, StreamRef stream, TransferOptions options = {});
  Transfer start_rows(PitchedTarget target, PitchedSource source, std::size_t row_bytes,
                      std::size_t rows, const CopyStreams& streams, TransferOptions options = {});

  /// start() for many copies at once, between memory of any kinds: a model's parameters, the blocks
  /// of a cache. They are in no order among one another. Neighbours of the list that adjoin on both
  /// sides travel as one, and what goes the same way takes one call of the driver for each 8 MiB
  /// (cuMemcpyBatchAsync, of CUDA 13; each copy counts 28 KiB more than it has) instead of one for
  /// each copy. Small targets in pinned memory whose sources are one range of a device go through
  /// staging memory.
  ///
  /// Returns one Transfer for all of them. Cancelling it ends those that pass through staging
  /// memory.
  /// Captures  Each becomes a node of the graph.
  /// Errors    InvalidArgument also: a target that overlaps anything else of the batch. Nothing has
  ///           been copied then. Of any other error: some may have been.
  Transfer start_batch(std::span<const CopyRange> copies, StreamRef stream,
                       TransferOptions options = {});
  /// Between the work of two streams, one of which has to suit all copies of the batch.
  Transfer start_batch(std::span<const CopyRange> copies, const CopyStreams& streams,
                       TransferOptions options = {});

  /// The same from a file to device memory. The file stays open until the transfer is over; its
  /// bytes are read when there is room for them, from now on.
  ///
  /// Blocking  Never for the disk, whose part threads of their own do; for staging memory as
  ///           start() above. Where the driver would have to copy by its own means the call returns
  ///           when the bytes are there.
  /// Errors    InvalidArgument: also memory that is not a device's, for which there is
  ///           File::read(); a file that is open to write. FileError: the range wraps around, or
  ///           the file ends before; nothing is copied then. What goes wrong later, a file that has
  ///           been cut short, a read error, ends the transfer with FileError, and no other; the
  ///           target's content is undefined. StreamCaptured. DriverError.
  Transfer start(void* target, const FileRange& source, StreamRef stream,
                 TransferOptions options = {});
  /// From device memory to a file: the transfer is over when all has been written, which
  /// File::sync() then brings to the disk. A full disk ends it with FileError; what has been
  /// written until then stays.
  Transfer start(const FileRange& target, const void* source, StreamRef stream,
                 TransferOptions options = {});

  /// start() for pageable memory that will not stay, with what cuMemcpyAsync promises of it: when
  /// this returns, a pageable source has been read, and a pageable target has the bytes. Either may
  /// be changed or freed at once. Source: CUDA Driver API, "API synchronization behavior".
  /// Blocking  Pinned and device memory: never. A pageable source: until the bytes are in staging
  ///           memory, which the caller helps with; where it does not hold all of them, until the
  ///           stream has passed the rest, which CopyCounters::staging_waits counts. A pageable
  ///           target: until the stream has passed the copy.
  /// Errors    As start(), and what goes wrong until the call returns.
  void copy_async(void* target, const void* source, std::size_t bytes, StreamRef stream);
  void copy_async(void* target, const void* source, std::size_t bytes, const CopyStreams& streams);

  /// Copies in the order of `stream`, and returns when the target has the bytes.
  /// Errors  As start(), and what goes wrong until the call returns. StreamCaptured: on any
  ///         captured stream; nothing has been copied.
  void copy(void* target, const void* source, std::size_t bytes, StreamRef stream);

  /// Copies between host memory, pinned or pageable, on the calling thread and without a stream:
  /// works without devices, and in a forked child.
  /// Errors  InvalidArgument: null, ranges that overlap or wrap around; memory of a device that
  ///         berth has used; memory that is not there, or not to be written; a pinned block that
  ///         is free, and a range that runs past the end of one.
  void copy(void* target, const void* source, std::size_t bytes);

  /// Sets every byte of device memory in the order of `stream`.
  /// Errors  InvalidArgument: null, or memory that is neither the stream's device's nor managed.
  void fill_async(void* target, std::uint8_t value, std::size_t bytes, StreamRef stream);

  [[nodiscard]] CopyCounters counters() const;

 private:
  friend class Collectives;  // makes copies of its own, and has them counted
  void count_direct(std::size_t bytes) noexcept;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth
