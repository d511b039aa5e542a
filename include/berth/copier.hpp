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
class HostAllocator;
class PinnedAllocator;

/// Each range must lie in one allocation, of any kind: device memory allocated by berth or by other
/// code in this process, managed memory, pinned memory, pageable memory. The two ranges must not
/// overlap. A copy of 0 bytes has no effect.
///
/// Pageable memory is copied through pinned staging memory by threads of the copier. The stream
/// waits for them behind gates (cuStreamWaitValue32), the caller does not. Without gates
/// (CopierOptions::gates), or if no memory can be pinned, the driver copies. A device that uses the
/// host's page tables (CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) copies
/// pageable memory directly, as it does pinned memory; copy_async() still stages a source.
///
/// Threads  Safe from any thread, except from inside a CUDA host callback.
/// Fork     In a child made by fork(), copies without a stream work; all others fail with
///          NotSupported.
class BERTH_API Copier {
 public:
  /// Errors  InvalidArgument: an option out of range.
  Copier(const DeviceRegistry& registry, PinnedAllocator& pinned, HostAllocator& host,
         CompletionQueue& completions, CopierOptions options);
  /// Waits for copies through staging memory. Copies that a device makes alone continue.
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  /// Copies in the order of `stream`, which must be a stream of the device of one side, and returns
  /// immediately. The Transfer, or an event that is recorded on the stream after the call, reports
  /// the end of the copy.
  ///
  /// Source    Device and pinned memory is read in stream order, so earlier work of the stream may
  ///           write it. Pageable memory may be read earlier. The source must stay valid until the
  ///           transfer is over, and a pageable source must not change. A pinned block or
  ///           registration of any Runtime may be freed immediately: its reuse waits. Memory that
  ///           the program has pinned by other means must stay pinned and unchanged until the
  ///           transfer is over.
  /// Target    Has the bytes when the stream has passed the copy. Must stay valid until then.
  /// Blocking  Waits for other streams only inside driver calls that pin staging memory or enable
  ///           peer access: for the first copies, and when more streams than before have copies
  ///           pending. Does not wait for copies of pinned, device or staged pageable memory. If
  ///           staging memory is short, the driver may copy (CopierOptions::staging_on_shortage,
  ///           CopyCounters::copies_by_driver), and the call may wait for the stream. The driver
  ///           queues about a thousand pieces for a stream: a pageable copy of more than a GiB
  ///           waits until its last part fits, and any call waits if the queue is full.
  ///           docs/staging.md has a table of all cases. Copies between host memory wait for the
  ///           stream and are complete when the call returns, as with cuMemcpyAsync; copy()
  ///           without a stream does not wait.
  /// Captures  On a captured stream a copy of pinned or device memory becomes part of the graph,
  ///           and the Transfer is empty. A block of a PinnedAllocator may be freed at any time: it
  ///           is reused when the graph and all executable graphs made from it have been destroyed
  ///           (PinnedAllocator::keep_for_graph()). All other memory must stay valid for as long as
  ///           the graph may be launched. No other thread may begin a capture on `stream` during
  ///           the call, because the copy might be captured in part, and never complete; a capture
  ///           may begin while the transfer is pending.
  /// Errors    InvalidArgument: null; ranges that overlap or wrap around; a stream of a device that
  ///           neither side belongs to, or of another Runtime; memory that does not exist, such as
  ///           device memory that has been freed to the driver; a pageable target that this process
  ///           cannot write; a pinned block that is free; a range that runs past the end of the
  ///           pinned block in which it begins. Of pageable memory, the first and the last byte are
  ///           checked; missing memory in between crashes the process with SIGSEGV. Freed device
  ///           memory that berth has cached exists, and is not refused.
  ///           StreamCaptured: the stream is captured, and the host would do the copy or a part of
  ///           it, or an option requires an end; or the legacy default stream, while a stream that
  ///           waits for it is captured. Nothing has been copied, and the capture continues.
  ///           Exhausted: on_done or keep_alive, and the system starts no thread for callbacks;
  ///           nothing has been copied. OutOfMemory: StagingShortage::grow. DriverError: the driver
  ///           refuses the copy. std::bad_alloc itself: operator new fails. After OutOfMemory,
  ///           DriverError and std::bad_alloc, the content of the target is undefined, no part of
  ///           the copy is pending, on_done is not called, keep_alive has been released, and the
  ///           next copy works.
  Transfer start(void* target, const void* source, std::size_t bytes, StreamRef stream,
                 TransferOptions options = {});
  /// start() in the order of two streams, with {.target_stream = a, .source_stream = b}:
  /// CopyStreams.
  /// Errors  As above. If the call fails after a part was submitted, it throws when that part is
  ///         complete.
  Transfer start(void* target, const void* source, std::size_t bytes, const CopyStreams& streams,
                 TransferOptions options = {});

  /// start() for `rows` rows of `row_bytes`, with a pitch for each side: a part of a matrix, a
  /// padded image. No effect if either number is 0. All rows of a side lie in one allocation.
  /// Between two devices each row is a separate copy.
  /// Errors  InvalidArgument also: a pitch below `row_bytes`; sides that overlap between their
  ///         first and last bytes, unless they are different columns of one matrix, with the same
  ///         pitch.
  Transfer start_rows(PitchedTarget target, PitchedSource source, std::size_t row_bytes,
                      std::size_t rows, StreamRef stream, TransferOptions options = {});
  Transfer start_rows(PitchedTarget target, PitchedSource source, std::size_t row_bytes,
                      std::size_t rows, const CopyStreams& streams, TransferOptions options = {});

  /// start() for many copies in one call, between any kinds of memory: a model's parameters, the
  /// blocks of a cache. There is no order among them. Consecutive copies that are adjacent on both
  /// sides become one. Copies that are made the same way take one driver call for each 8 MiB
  /// (cuMemcpyBatchAsync of CUDA 13; each counts as its bytes plus 28 KiB) instead of one each.
  /// Small targets in pinned memory whose sources are one range of a device pass through staging
  /// memory (CopierOptions::packed_range_bytes_max).
  ///
  /// Returns one Transfer for all of them. cancel() ends those that pass through staging memory.
  /// Captures  Each copy becomes a node of the graph.
  /// Errors    InvalidArgument also: a target that overlaps another range of the batch; nothing has
  ///           been copied then. After other errors, some copies may have been made.
  Transfer start_batch(std::span<const CopyRange> copies, StreamRef stream,
                       TransferOptions options = {});
  /// start_batch() in the order of two streams, one of which must suit all copies of the batch.
  Transfer start_batch(std::span<const CopyRange> copies, const CopyStreams& streams,
                       TransferOptions options = {});

  /// start() from a file to device memory. The file stays open until the transfer is over. It may
  /// be read at any time until then.
  ///
  /// Blocking  Never waits for the disk, which separate threads read. For staging memory as start()
  ///           above. If the driver copies, the call returns when the bytes have arrived.
  /// Errors    InvalidArgument: also host memory (use File::read()), or a file that is open to
  ///           write. FileError: the range wraps around or goes beyond the end of the file; nothing
  ///           is copied then. Later failures, such as a truncated file or a read error, end only
  ///           this transfer, with FileError; the content of the target is undefined.
  ///           StreamCaptured. DriverError.
  Transfer start(void* target, const FileRange& source, StreamRef stream,
                 TransferOptions options = {});
  /// start() from device memory to a file. The transfer is over when everything has been written;
  /// File::sync() then waits for the disk. A full disk ends it with FileError; bytes written before
  /// remain in the file.
  Transfer start(const FileRange& target, const void* source, StreamRef stream,
                 TransferOptions options = {});

  /// start() with the guarantees of cuMemcpyAsync for pageable memory: when this returns, a
  /// pageable source has been read, and a pageable target has the bytes. Either may be changed or
  /// freed immediately. Source: CUDA Driver API, "API synchronization behavior".
  /// Blocking  Does not wait for pinned and device memory. A pageable source: until the bytes are
  ///           in staging memory, which the caller helps to fill; if they do not all fit, until the
  ///           stream has passed the rest (CopyCounters::staging_waits). A pageable target: until
  ///           the stream has passed the copy.
  /// Errors    As start(), and failures of the copy until the call returns.
  void copy_async(void* target, const void* source, std::size_t bytes, StreamRef stream);
  void copy_async(void* target, const void* source, std::size_t bytes, const CopyStreams& streams);

  /// Copies in the order of `stream`, and returns when the target has the bytes.
  /// Errors  As start(), and failures of the copy. StreamCaptured: on any captured stream; nothing
  ///         has been copied.
  void copy(void* target, const void* source, std::size_t bytes, StreamRef stream);
  /// copy() in the order of two streams, neither of which is captured.
  void copy(void* target, const void* source, std::size_t bytes, const CopyStreams& streams);

  /// Copies between host memory, pinned or pageable, on the calling thread and without a stream.
  /// Works without devices, and in a forked child.
  /// Errors  InvalidArgument: null; ranges that overlap or wrap around; memory of a device that
  ///         berth has used; memory that does not exist or cannot be written; a pinned block that
  ///         is free, or a range that runs past the end of one.
  void copy(void* target, const void* source, std::size_t bytes);

  /// Sets every byte of device memory to `value` in the order of `stream`. On a captured stream the
  /// fill becomes part of the graph.
  /// Errors  InvalidArgument: null, or memory that is neither the stream's device's nor managed.
  ///         StreamCaptured: the legacy default stream, while a stream that waits for it is
  ///         captured. DriverError.
  void fill_async(void* target, std::uint8_t value, std::size_t bytes, StreamRef stream);

  /// The copies so far.
  [[nodiscard]] CopyCounters counters() const;

 private:
  friend class Collectives;  // consists of parts, and counts the copies that it makes itself
  Transfer start_part(void* target, const void* source, std::size_t bytes, StreamRef stream,
                      TransferOptions options);
  void count_direct(std::size_t bytes) noexcept;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth
