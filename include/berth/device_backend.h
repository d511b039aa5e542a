/* SPDX-License-Identifier: Apache-2.0 */
// Devices other than CUDA devices, as PJRT plug-ins provide them, and buffers on them.
#ifndef BERTH_DEVICE_BACKEND_H
#define BERTH_DEVICE_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "berth/device.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/file.h"
#include "berth/runtime.h"
#include "berth/stream.h"
#include "berth/transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The type of the value of a berth_pjrt_option.
enum { BERTH_PJRT_INT64 = 0, BERTH_PJRT_BOOL = 1, BERTH_PJRT_FLOAT = 2, BERTH_PJRT_STRING = 3 };

/// A named option that a plug-in understands when its client or a topology is created.
typedef struct berth_pjrt_option {
  const char* name;
  const char* text;  ///< the value of BERTH_PJRT_STRING; otherwise ignored
  int64_t integer;   ///< of BERTH_PJRT_INT64, and of BERTH_PJRT_BOOL: 0 or 1
  double number;     ///< of BERTH_PJRT_FLOAT, which is passed as a float
  int64_t type;      ///< BERTH_PJRT_INT64 or a similar value
} berth_pjrt_option;

/// Loads a PJRT plug-in and registers its devices under a type such as "tpu", which must not have
/// devices yet. `options` may be null if `option_count` is 0.
/// Blocking  As long as the plug-in takes to initialize itself and to create its client, which
///           berth does not bound: libtpu takes minutes where it waits for the metadata server of a
///           cloud that is not there. Waits while another thread initializes the same plug-in.
/// Errors    BERTH_INVALID_ARGUMENT: no library, or a library without GetPjrtApi; "cpu" or "cuda";
///           a text that is no name of a type; a type that has a backend; an option of an unknown
///           type, or without name or text. BERTH_NOT_SUPPORTED: another version of the ABI; a
///           function that berth needs is missing; libberth_pjrt is not installed.
///           BERTH_BACKEND_ERROR, and BERTH_OUT_OF_MEMORY, BERTH_NOT_SUPPORTED, BERTH_CANCELLED by
///           the plug-in's code: the plug-in refuses. The type has no devices then, and the call
///           may be repeated. A plug-in that was initialized stays loaded.
BERTH_API berth_status berth_pjrt_register(berth_runtime* runtime, const char* type,
                                           const char* path, const berth_pjrt_option* options,
                                           size_t option_count);
/// Registers the devices of a topology of the plug-in, such as "v5e:2x2x1" of libtpu, without
/// hardware: they are described, and have no memory. The options are options of the topology, which
/// may differ from the options of a client.
/// Blocking  As berth_pjrt_register(), with the topology instead of a client.
/// Errors    As berth_pjrt_register().
BERTH_API berth_status berth_pjrt_register_topology(berth_runtime* runtime, const char* type,
                                                    const char* path, const char* topology,
                                                    const berth_pjrt_option* options,
                                                    size_t option_count);

/// Number of devices of a type; 0 for a type without a backend.
/// Errors  BERTH_INVALID_ARGUMENT: no type has this number.
BERTH_API berth_status berth_device_type_get_device_count(berth_runtime* runtime, int type,
                                                          int* count);
/// The implementation of the devices of a type and its version; "" for a type without a backend.
/// berth_string_free() frees the text, here and below.
BERTH_API berth_status berth_device_type_get_backend(berth_runtime* runtime, int type, char** name);
/// Facts about that implementation as a JSON object, such as "pjrt_api_version"; {} for a type
/// without a backend.
BERTH_API berth_status berth_device_type_get_attributes(berth_runtime* runtime, int type,
                                                        char** json);
/// The reason why a type that the configuration names has no backend, in one line; otherwise "".
BERTH_API berth_status berth_device_type_get_problem(berth_runtime* runtime, int type,
                                                     char** problem);
/// Why devices of a type are visible or not, as a JSON array. It has an object for each device, by
/// ordinal, and then one for each known chip that has no device, whether the machine has it or
/// TPU_VISIBLE_CHIPS names it. Each object has "logical" (the ordinal; null without a device),
/// "physical" (the number in the machine; -1 if it is unknown) and "sentence".
BERTH_API berth_status berth_device_type_explain(berth_runtime* runtime, int type, char** json);
/// Facts about a device of any type as a JSON object: "name", "kind", "memory_bytes" (null if it is
/// unknown), and "attributes", whose values are booleans, numbers, texts or lists of integers.
BERTH_API berth_status berth_device_describe(berth_runtime* runtime, berth_device device,
                                             char** json);

/// Memory of a device of a backend, as the backend reports it. UINT64_MAX: not reported.
typedef struct berth_backend_memory {
  size_t struct_size;
  uint64_t bytes_used;
  uint64_t bytes_used_peak;
  uint64_t bytes_limit;  ///< the most that may be used
  uint64_t bytes_reserved;
  uint64_t bytes_reserved_peak;
  uint64_t largest_free_block_bytes;
  uint64_t allocations;  ///< since the start
} berth_backend_memory;

#define BERTH_BACKEND_MEMORY_INIT \
  { sizeof(berth_backend_memory), 0, 0, 0, 0, 0, 0, 0 }

/// The memory of a device of a backend now.
/// Errors  BERTH_INVALID_ARGUMENT: no such device, or one that has no backend. The status of the
///         backend.
BERTH_API berth_status berth_device_get_backend_memory(berth_runtime* runtime, berth_device device,
                                                       berth_backend_memory* memory);

/// A buffer on a device of a backend: opaque, filled when it is created, and then immutable. Safe
/// from any thread, as long as it is freed once. After the end of its runtime it can only be freed.
typedef struct berth_buffer berth_buffer;

/// Creates a buffer with a copy of host memory, and returns immediately. The source must stay valid
/// and unchanged until the transfer of berth_buffer_get_transfer() is over. Null `options`: the
/// defaults, here and below. A backend that cannot fill a buffer in parts ignores `part_bytes`.
/// Errors  BERTH_INVALID_ARGUMENT: no such device; the CPU or a CUDA device; a source that is null,
///         wraps around or is memory of a CUDA device; `part_bytes`. BERTH_BACKEND_ERROR,
///         BERTH_OUT_OF_MEMORY, BERTH_NOT_SUPPORTED, and other statuses of a backend of the
///         program: the backend refuses. BERTH_OUT_OF_MEMORY also: the process has no memory.
///         BERTH_EXHAUSTED: the system starts no thread for on_done and release, or for a copy in
///         parts. No buffer exists then. Later failures are reported by the transfer.
BERTH_API berth_status berth_buffer_create(berth_runtime* runtime, berth_device device,
                                           const void* source, size_t bytes,
                                           const berth_transfer_options* options,
                                           berth_buffer** buffer);
/// Creates a buffer from a range of a file, which another thread reads if the backend can fill a
/// buffer in parts. Otherwise reads the whole range first.
/// Errors  As berth_buffer_create(), without a source in memory. BERTH_FILE: the range wraps
///         around, or goes beyond the end of the file; where the whole range is read first, also a
///         file that cannot be read. BERTH_INVALID_ARGUMENT also: a file that is open to write.
///         BERTH_EXHAUSTED also: no thread for the file.
BERTH_API berth_status berth_buffer_create_from_file(berth_runtime* runtime, berth_device device,
                                                     berth_file* source, uint64_t offset,
                                                     size_t bytes,
                                                     const berth_transfer_options* options,
                                                     berth_buffer** buffer);
/// A copy of another buffer, which may be freed immediately.
/// Blocking  Waits until `source` has been read if its device belongs to another backend. A PJRT
///           backend waits for a copy on the same device.
/// Errors    As berth_buffer_create(). BERTH_INVALID_ARGUMENT also: the runtime of `source` has
///           ended.
BERTH_API berth_status berth_buffer_create_copy(berth_runtime* runtime, berth_device device,
                                                berth_buffer* source,
                                                const berth_transfer_options* options,
                                                berth_buffer** buffer);
/// A copy of memory of any kind that `stream` can read, in its order.
/// Blocking  Waits until the source has been read: it may be freed or changed immediately.
/// Errors    As berth_buffer_create() and berth_copy_sync().
BERTH_API berth_status berth_buffer_create_on_stream(berth_runtime* runtime, berth_device device,
                                                     const void* source, size_t bytes,
                                                     berth_stream stream,
                                                     const berth_transfer_options* options,
                                                     berth_buffer** buffer);
/// Frees the memory. Does not wait: a source that is being read must stay valid. Null: no effect.
BERTH_API void berth_buffer_free(berth_buffer* buffer);

/// The device of the buffer, with its ordinal.
BERTH_API berth_status berth_buffer_get_device(berth_buffer* buffer, berth_device* device);
/// The size of the buffer as it was requested.
BERTH_API berth_status berth_buffer_get_bytes(berth_buffer* buffer, size_t* bytes);
/// The transfer that fills the buffer; berth_transfer_release() releases it.
BERTH_API berth_status berth_buffer_get_transfer(berth_buffer* buffer, berth_transfer** transfer);

/// Copies [offset, offset + bytes) of a buffer into host memory, and returns immediately. `target`
/// must stay valid until the transfer is over, also if the handle is released before or `transfer`
/// is null: on_done and `release` of the options then report the end. `transfer` may be null. A
/// backend that cannot read parts ignores `part_bytes`. 0 bytes: no effect.
/// Errors  BERTH_INVALID_ARGUMENT: a range outside of the buffer; a target that is null, wraps
///         around or is memory of a CUDA device; `part_bytes`; the runtime has ended.
///         BERTH_BACKEND_ERROR, BERTH_OUT_OF_MEMORY, BERTH_NOT_SUPPORTED, and other statuses of a
///         backend of the program: the backend refuses. BERTH_OUT_OF_MEMORY also: the process has
///         no memory. BERTH_EXHAUSTED: the system starts no thread for on_done and release, or for
///         a copy in parts. The content of `target` is undefined then, and nothing uses it any
///         more. Later failures, that of the filling among them, are reported by the transfer.
BERTH_API berth_status berth_buffer_read(berth_buffer* buffer, void* target, size_t offset,
                                         size_t bytes, const berth_transfer_options* options,
                                         berth_transfer** transfer);
/// Copies [offset, offset + bytes) of a buffer to a file, from `target_offset` of the file on, and
/// returns immediately: another thread writes the file, which must be open to write. The transfer
/// reports progress and can be cancelled. `transfer` may be null.
/// Errors  BERTH_INVALID_ARGUMENT: a range outside of the buffer; a file that is open to read; the
///         runtime has ended. BERTH_FILE: the range of the file wraps around. BERTH_OUT_OF_MEMORY:
///         the process. BERTH_EXHAUSTED: the system starts no thread for the file, or for on_done
///         and release. Nothing is written then. Later failures are reported by the transfer:
///         BERTH_FILE, BERTH_CANCELLED and those of the backend. The content of the range is
///         undefined then.
BERTH_API berth_status berth_buffer_read_to_file(berth_buffer* buffer, berth_file* target,
                                                 uint64_t target_offset, size_t offset,
                                                 size_t bytes,
                                                 const berth_transfer_options* options,
                                                 berth_transfer** transfer);
/// Copies [offset, offset + bytes) of a buffer to memory of any kind that `stream` can write, in
/// its order. `transfer` may be null.
/// Blocking  Waits until the buffer has been read; not for the copy on `stream`.
/// Errors    As berth_buffer_read() and berth_transfer_start().
BERTH_API berth_status berth_buffer_copy(berth_runtime* runtime, void* target, berth_buffer* source,
                                         size_t offset, size_t bytes, berth_stream stream,
                                         const berth_transfer_options* options,
                                         berth_transfer** transfer);

/// One part of berth_buffer_scatter().
typedef struct berth_buffer_shard {
  berth_device device;
  size_t bytes;
} berth_buffer_shard;

/// Copies consecutive ranges of host memory to new buffers, one for each shard, and writes these to
/// `buffers`. `bytes` is the sum of the shards' sizes. Returns immediately. The transfer of each
/// buffer is that of the whole call.
/// Errors  As berth_buffer_create(), for the device of each shard. BERTH_INVALID_ARGUMENT also: no
///         shards, null `shards` or `buffers`, or sizes that do not add up. No buffer exists or is
///         written then, and nothing reads the source any more.
BERTH_API berth_status berth_buffer_scatter(berth_runtime* runtime, const void* source,
                                            size_t bytes, const berth_buffer_shard* shards,
                                            size_t shard_count,
                                            const berth_transfer_options* options,
                                            berth_buffer** buffers);
/// Copies buffers to consecutive ranges of host memory: the reverse of berth_buffer_scatter().
/// `transfer` may be null.
/// Errors  As berth_buffer_read(). BERTH_INVALID_ARGUMENT also: no sources, null among them, one of
///         another runtime, or sizes that do not add up.
BERTH_API berth_status berth_buffer_gather(berth_runtime* runtime, void* target, size_t bytes,
                                           berth_buffer* const* sources, size_t source_count,
                                           const berth_transfer_options* options,
                                           berth_transfer** transfer);

/// A mapping of host memory for the devices of a backend. Safe from any thread, as long as it is
/// freed once.
typedef struct berth_host_mapping berth_host_mapping;

/// Maps host memory for all devices of the backend of `device`, so that they read and write it
/// themselves, as CUDA devices access pinned memory. The memory must exist until the mapping is
/// freed. A block of an allocator that is freed before stays mapped.
/// Errors  BERTH_INVALID_ARGUMENT: no such device; memory of a CUDA device; a range that wraps
///         around or overlaps memory that is mapped for the backend. BERTH_NOT_SUPPORTED: the
///         backend maps no memory. BERTH_BACKEND_ERROR. BERTH_OUT_OF_MEMORY. Nothing is mapped
///         then.
BERTH_API berth_status berth_host_mapping_create(berth_runtime* runtime, berth_device device,
                                                 void* data, size_t bytes,
                                                 berth_host_mapping** mapping);
/// Ends the mapping. Waits for the operations of transfers that began on the mapped memory. Null:
/// no effect.
BERTH_API void berth_host_mapping_free(berth_host_mapping* mapping);

/// Buffers of one device, and what was copied. Units: bytes, and numbers of buffers.
typedef struct berth_buffer_counters {
  size_t struct_size;
  uint64_t buffers_live;
  uint64_t bytes_live;
  uint64_t bytes_live_peak;
  uint64_t buffers_created;
  uint64_t bytes_written;  ///< from host memory and files
  uint64_t bytes_read;     ///< to host memory and files
  uint64_t bytes_copied;   ///< to this device from devices of the same backend
  uint64_t staging_bytes;  ///< memory of berth for copies of files, now: berth_buffer_trim()
} berth_buffer_counters;

#define BERTH_BUFFER_COUNTERS_INIT \
  { sizeof(berth_buffer_counters), 0, 0, 0, 0, 0, 0, 0, 0 }

/// Frees the memory of berth for copies of files: 12 MiB of each device that has copied a file and
/// has no such copy pending. A later copy allocates it again. Writes the number of bytes.
/// Blocking  As long as the backends take to unmap it. Does not wait for copies.
/// Errors    BERTH_INVALID_ARGUMENT: null. BERTH_NOT_SUPPORTED: in a forked child. Nothing is freed
///           then. A failure to unmap goes to the report sink, and the memory is freed all the
///           same.
BERTH_API berth_status berth_buffer_trim(berth_runtime* runtime, size_t* bytes_released);
/// The counters of a device of a backend.
/// Errors  BERTH_INVALID_ARGUMENT: no such device, or one that has no backend.
BERTH_API berth_status berth_buffer_get_counters(berth_runtime* runtime, berth_device device,
                                                 berth_buffer_counters* counters);

#ifdef __cplusplus
}
#endif

#endif
