// SPDX-License-Identifier: Apache-2.0
// Memory of devices that a DeviceBackend manages: buffers, and their copies from and to host
// memory, files, CUDA devices and each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "berth/cpp20.hpp"
#include "berth/device.hpp"
#include "berth/export.h"
#include "berth/file.hpp"
#include "berth/host_mapping.hpp"
#include "berth/report.hpp"
#include "berth/stream.hpp"
#include "berth/transfer.hpp"

namespace berth {

class BufferState;
class Copier;
class DeviceRegistry;
class HostAllocator;
class PinnedAllocator;

/// Buffers of one device, and what was copied. Units: bytes, and numbers of buffers.
struct BufferCounters {
  std::uint64_t buffers_live = 0;
  std::uint64_t bytes_live = 0;
  std::uint64_t bytes_live_peak = 0;
  std::uint64_t buffers_created = 0;
  std::uint64_t bytes_written = 0;  ///< from host memory and files
  std::uint64_t bytes_read = 0;     ///< to host memory and files
  std::uint64_t bytes_copied = 0;   ///< to this device from devices of the same backend
  std::uint64_t staging_bytes = 0;  ///< memory of berth for copies of files, now: DeviceBuffers
};

/// The owner of a buffer on a device of a DeviceBackend. Made by DeviceBuffers. A buffer is opaque:
/// it has no address and belongs to no stream. It is filled once, when it is created, and does not
/// change. Empty if default-constructed or moved from.
///
/// Lifetime  The destructor frees the memory. If ready() is the last copy of that Transfer, the
///           destructor waits until the source in host memory is no longer read, unless there is
///           TransferOptions::keep_alive. Reads and copies that have started continue. At the end
///           of its Runtime a buffer loses its memory: device(), bytes(), ready() and destruction
///           still work, and all other functions throw InvalidArgument.
/// Threads   const functions are safe from any thread, as long as no thread assigns to the object
///           or destroys it.
/// Fork      In a child made by fork(), functions that use the memory throw NotSupported, and the
///           destructor frees nothing.
class BERTH_API DeviceBuffer {
 public:
  DeviceBuffer() noexcept = default;
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&&) noexcept = default;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  explicit operator bool() const noexcept { return state_ != nullptr; }
  /// With its ordinal.
  /// Errors  InvalidArgument: empty.
  [[nodiscard]] Device device() const;
  /// The size as it was requested; 0 if empty.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// The transfer that fills the buffer. Reads and copies need not wait for it. cancel() of it ends
  /// a filling in parts, and with it the reads and copies that wait for it.
  /// Errors  InvalidArgument: empty.
  [[nodiscard]] const Transfer& ready() const;

  /// Copies [offset, offset + bytes) into host memory and returns immediately. `target` must stay
  /// valid until the transfer is over; the destructor of Transfer waits for that. 0 bytes: no
  /// effect. TransferOptions::priority has no effect, here and in DeviceBuffers. DeviceBuffers
  /// explains part_bytes.
  /// Errors  InvalidArgument: empty, or after the end of the Runtime; a range outside of the
  ///         buffer; null; memory of a CUDA device; part_bytes. BackendError. OutOfMemory.
  ///         NotSupported. Exhausted: no thread for a copy in parts. If the filling of the buffer
  ///         fails or is cancelled, the transfer fails too, with the error that the backend reports
  ///         for the read. After an error the content of `target` is undefined, on_done is not
  ///         called, and keep_alive is released.
  Transfer read(void* target, std::size_t offset, std::size_t bytes,
                TransferOptions options = {}) const;
  /// Copies target.bytes from `offset` on into a range of a file, and returns immediately. A berth
  /// thread writes the file, in parts of 4 MiB; the transfer reports progress and can be cancelled.
  /// If the backend does not read parts, the buffer is read once, into memory of its size. The file
  /// stays open, and the memory of the buffer exists, until the transfer is over. 0 bytes: no
  /// effect. File::sync() makes it survive a loss of power.
  /// Errors  InvalidArgument: empty, or after the end of the Runtime; a range outside of the
  ///         buffer; a file that is open to read. FileError: the range wraps around. Exhausted: no
  ///         thread for the file. Later failures are those of the transfer: FileError, Cancelled
  ///         and those of the backend. The content of the range is undefined then.
  Transfer read(const FileRange& target, std::size_t offset, TransferOptions options = {}) const;

 private:
  friend class DeviceBuffers;
  explicit DeviceBuffer(std::shared_ptr<BufferState> state) noexcept;

  std::shared_ptr<BufferState> state_;
};

/// One part of DeviceBuffers::scatter().
struct BufferShard {
  Device device;
  std::size_t bytes;
};

/// Creates buffers on devices of backends: Runtime::buffers(). A type alone (`tpu`) is its device
/// 0. `cpu` and CUDA devices are refused, because their memory comes from allocators.
///
/// Errors   Of all: InvalidArgument: no such device. BackendError, OutOfMemory, NotSupported: the
///          backend refuses. Exhausted: the system starts no thread for callbacks or files. No
///          buffer exists then, on_done is not called, and keep_alive is released. A failure after
///          the call is that of DeviceBuffer::ready(); if the program never observes it, it goes to
///          the report sink.
/// Transfer  With TransferOptions::part_bytes, create() from host memory, scatter(), gather() and
///          DeviceBuffer::read() into host memory copy in parts, from the memory itself or into it.
///          What a backend cannot fill in parts (DeviceBackend::begin_buffer()) or read in parts
///          (reads_parts()) is one part, which the call starts and cancel() does not end. A scatter
///          or gather that fails or is cancelled ends on all devices.
/// Memory   Copies of files use staging memory of berth: 12 MiB of each device that has copied a
///          file, mapped once for its backend if that maps memory. trim() frees it.
/// Threads  Safe from any thread. Backends call back on their own threads; on_done is called and
///          keep_alive is released on a berth thread. Each device has up to two more: one copies
///          files, and one copies host memory in parts. Both start with their first copy and end
///          with the Runtime. Each makes its copies one after the other, in the order of the calls,
///          so a copy delays later ones of the same device, and none of another device.
class BERTH_API DeviceBuffers {
 public:
  /// For Runtime. All arguments must outlive it.
  DeviceBuffers(const DeviceRegistry& registry, const PinnedAllocator& pinned, HostAllocator& host,
                Copier& copier, ReportSink sink);
  /// Waits for all transfers and calls on_done of each. Remaining buffers lose their memory.
  ~DeviceBuffers();
  DeviceBuffers(const DeviceBuffers&) = delete;
  DeviceBuffers& operator=(const DeviceBuffers&) = delete;

  /// A buffer with a copy of host memory, pageable or pinned. Returns immediately. The source must
  /// stay valid and unchanged until ready() is over.
  /// Errors  InvalidArgument also: null; memory of a CUDA device (pass a stream); part_bytes.
  [[nodiscard]] DeviceBuffer create(Device device, const void* source, std::size_t bytes,
                                    TransferOptions options = {});
  /// A buffer with the content of a range of a file. The file stays open until ready() is over.
  /// Blocking  Returns immediately if the backend can fill a buffer in parts: a berth thread reads
  ///           the file, in parts of 4 MiB, and ready() reports progress and can be cancelled.
  ///           Otherwise reads the whole range first.
  /// Errors    FileError: the range wraps around or goes beyond the end of the file.
  ///           InvalidArgument also: a file that is open to write.
  [[nodiscard]] DeviceBuffer create(Device device, const FileRange& source,
                                    TransferOptions options = {});
  /// A copy of another buffer: by the backend if both devices belong to it, otherwise through host
  /// memory. TransferOptions::keep_alive is not needed: `source` may be destroyed immediately.
  /// Blocking  Returns immediately within a backend, except that a PJRT backend waits for a copy on
  ///           the same device. Otherwise waits until `source` has been read.
  /// Errors    InvalidArgument also: `source` is empty, or its Runtime has ended.
  [[nodiscard]] DeviceBuffer create(Device device, const DeviceBuffer& source,
                                    TransferOptions options = {});
  /// A copy of memory of any kind that `stream` can read, in the order of `stream`, through host
  /// memory.
  /// Blocking  Waits until the earlier work of `stream` is done and the source has been read: it
  ///           may be freed or changed immediately.
  /// Errors    As Copier::copy() also.
  [[nodiscard]] DeviceBuffer create(Device device, const void* source, std::size_t bytes,
                                    StreamRef stream, TransferOptions options = {});

  /// Copies [offset, offset + bytes) of a buffer to memory of any kind that `stream` can write, in
  /// the order of `stream`, through host memory. 0 bytes: no effect.
  /// Blocking  Waits until the buffer has been read; not for the copy on `stream`.
  /// Errors    As DeviceBuffer::read() and Copier::start().
  Transfer copy(void* target, const DeviceBuffer& source, std::size_t offset, std::size_t bytes,
                StreamRef stream, TransferOptions options = {});

  /// Copies consecutive ranges of host memory to new buffers, one for each shard, in their order.
  /// The devices may belong to several backends. `bytes` is the size of the source and the sum of
  /// the shards' sizes. Returns immediately.
  /// Transfer  ready() of each buffer represents the whole call, and is over when all are filled.
  /// Errors    InvalidArgument also: no shards, or sizes that do not add up. As create().
  [[nodiscard]] std::vector<DeviceBuffer> scatter(const void* source, std::size_t bytes,
                                                  std::span<const BufferShard> shards,
                                                  TransferOptions options = {});
  /// Copies the sources to consecutive ranges of host memory: the reverse of scatter(). Returns
  /// immediately.
  /// Errors  InvalidArgument also: no sources, one of another Runtime, or sizes that do not add up.
  ///         As DeviceBuffer::read().
  Transfer gather(void* target, std::size_t bytes, std::span<const DeviceBuffer* const> sources,
                  TransferOptions options = {});
  Transfer gather(void* target, std::size_t bytes, std::span<const DeviceBuffer> sources,
                  TransferOptions options = {});

  /// Maps host memory for all devices of the backend of `device`, so that they read and write it
  /// themselves, as CUDA devices access pinned memory. Transfers work without it. 0 bytes gives an
  /// empty mapping. HostMapping has the rules that hold until the mapping ends.
  /// Blocking  As long as the backend takes, which may pin the memory.
  /// Errors    InvalidArgument: no such device; null; memory of a CUDA device; a range that wraps
  ///           around or overlaps memory that is mapped for the backend. NotSupported: the backend
  ///           maps no memory. BackendError. OutOfMemory. Nothing is mapped then.
  [[nodiscard]] HostMapping map_host_memory(Device device, void* data, std::size_t bytes);

  /// Frees the staging memory of devices without pending copies of files, and returns its size. A
  /// later copy of a file allocates it again.
  /// Blocking  As long as the backend takes to unmap it.
  /// Errors    InvalidArgument: after the end of the Runtime. NotSupported: in a forked child.
  std::size_t trim();
  /// The counters of one device, which must be one of a backend.
  [[nodiscard]] BufferCounters counters(Device device) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace berth
