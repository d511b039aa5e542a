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
/// Errors  BERTH_INVALID_ARGUMENT: no library, or a library without GetPjrtApi; "cpu" or "cuda"; a
///         type that has a backend. BERTH_NOT_SUPPORTED: another version of the ABI; libberth_pjrt
///         is not installed. BERTH_BACKEND_ERROR: the plug-in refuses.
BERTH_API berth_status berth_pjrt_register(berth_runtime* runtime, const char* type,
                                           const char* path, const berth_pjrt_option* options,
                                           size_t option_count);
/// The same for the devices of a topology of the plug-in, without hardware: they are described, and
/// have no memory.
BERTH_API berth_status berth_pjrt_register_topology(berth_runtime* runtime, const char* type,
                                                    const char* path, const char* topology);

/// Number of devices of a type; 0 for a type without a backend.
/// Errors  BERTH_INVALID_ARGUMENT: no type has this number.
BERTH_API berth_status berth_device_type_get_device_count(berth_runtime* runtime, int type,
                                                          int* count);
/// The implementation of the devices of a type and its version; "" for a type without a backend.
/// berth_string_free() frees the text, here and below.
BERTH_API berth_status berth_device_type_get_backend(berth_runtime* runtime, int type, char** name);
/// The reason why a type that the configuration names has no backend, in one line; otherwise "".
BERTH_API berth_status berth_device_type_get_problem(berth_runtime* runtime, int type,
                                                     char** problem);
/// Why devices of a type are visible or not, as a JSON array: an object for each device by ordinal,
/// and for each chip without a device, of the machine or of TPU_VISIBLE_CHIPS, that is known, with
/// "logical" (null without a device), "physical" (the number in the machine, -1 if it is unknown)
/// and "sentence".
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
  uint64_t bytes_limit;
  uint64_t bytes_reserved;
  uint64_t bytes_reserved_peak;
  uint64_t largest_free_block_bytes;
  uint64_t allocations;
} berth_backend_memory;

#define BERTH_BACKEND_MEMORY_INIT \
  { sizeof(berth_backend_memory), 0, 0, 0, 0, 0, 0, 0 }

BERTH_API berth_status berth_device_get_backend_memory(berth_runtime* runtime, berth_device device,
                                                       berth_backend_memory* memory);

/// A buffer on a device of a backend: opaque, filled when it is created, and then immutable. Safe
/// from any thread, as long as it is freed once. After the end of its runtime it can only be freed.
typedef struct berth_buffer berth_buffer;

/// Creates a buffer with a copy of host memory, and returns at once. The source must stay valid and
/// unchanged until the transfer of berth_buffer_get_transfer() is over. Null `options`: the
/// defaults, here and below.
/// Errors  BERTH_INVALID_ARGUMENT: no such device; the CPU or a CUDA device; memory of a CUDA
///         device. BERTH_BACKEND_ERROR, BERTH_OUT_OF_MEMORY, BERTH_NOT_SUPPORTED: the backend
///         refuses. Later failures are reported by the transfer.
BERTH_API berth_status berth_buffer_create(berth_runtime* runtime, berth_device device,
                                           const void* source, size_t bytes,
                                           const berth_transfer_options* options,
                                           berth_buffer** buffer);
/// The same from a range of a file, which another thread reads if the backend can fill a buffer in
/// parts. Otherwise reads the whole range first.
/// Errors  BERTH_FILE also: the file ends before the range does.
BERTH_API berth_status berth_buffer_create_from_file(berth_runtime* runtime, berth_device device,
                                                     berth_file* source, uint64_t offset,
                                                     size_t bytes,
                                                     const berth_transfer_options* options,
                                                     berth_buffer** buffer);
/// A copy of another buffer. Waits until `source` has been read if its device belongs to another
/// backend.
BERTH_API berth_status berth_buffer_create_copy(berth_runtime* runtime, berth_device device,
                                                berth_buffer* source,
                                                const berth_transfer_options* options,
                                                berth_buffer** buffer);
/// A copy of memory of any kind that `stream` can read, in its order. Waits until the source has
/// been read.
BERTH_API berth_status berth_buffer_create_on_stream(berth_runtime* runtime, berth_device device,
                                                     const void* source, size_t bytes,
                                                     berth_stream stream,
                                                     const berth_transfer_options* options,
                                                     berth_buffer** buffer);
/// Frees the memory. Does not wait: a source that is being read must stay valid. Null: no effect.
BERTH_API void berth_buffer_free(berth_buffer* buffer);

BERTH_API berth_status berth_buffer_get_device(berth_buffer* buffer, berth_device* device);
BERTH_API berth_status berth_buffer_get_bytes(berth_buffer* buffer, size_t* bytes);
/// The transfer that fills the buffer; berth_transfer_release() releases it.
BERTH_API berth_status berth_buffer_get_transfer(berth_buffer* buffer, berth_transfer** transfer);

/// Copies [offset, offset + bytes) of a buffer into host memory, and returns at once. `transfer`
/// may be null.
/// Errors  BERTH_INVALID_ARGUMENT: a range outside of the buffer; memory of a CUDA device; the
///         runtime has ended. BERTH_BACKEND_ERROR. BERTH_OUT_OF_MEMORY. BERTH_NOT_SUPPORTED.
BERTH_API berth_status berth_buffer_read(berth_buffer* buffer, void* target, size_t offset,
                                         size_t bytes, const berth_transfer_options* options,
                                         berth_transfer** transfer);
/// Copies [offset, offset + bytes) of a buffer to a file, from `target_offset` of the file on, and
/// returns at once: another thread writes the file, which must be open to write. The transfer
/// reports progress and can be cancelled. `transfer` may be null.
/// Errors  BERTH_INVALID_ARGUMENT: a range outside of the buffer; a file that is open to read; the
///         runtime has ended. BERTH_FILE: the range of the file wraps around. Later failures are
///         reported by the transfer.
BERTH_API berth_status berth_buffer_read_to_file(berth_buffer* buffer, berth_file* target,
                                                 uint64_t target_offset, size_t offset,
                                                 size_t bytes,
                                                 const berth_transfer_options* options,
                                                 berth_transfer** transfer);
/// Copies [offset, offset + bytes) of a buffer to memory of any kind that `stream` can write, in
/// its order. Waits until the buffer has been read. `transfer` may be null.
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
/// `buffers`. `bytes` is the sum of the shards' sizes. Returns at once. The transfer of each buffer
/// is that of the whole call.
/// Errors  As berth_buffer_create(). BERTH_INVALID_ARGUMENT also: no shards, or sizes that do not
///         add up. No buffer is written then.
BERTH_API berth_status berth_buffer_scatter(berth_runtime* runtime, const void* source,
                                            size_t bytes, const berth_buffer_shard* shards,
                                            size_t shard_count,
                                            const berth_transfer_options* options,
                                            berth_buffer** buffers);
/// Copies buffers to consecutive ranges of host memory: the reverse of berth_buffer_scatter().
/// `transfer` may be null.
/// Errors  As berth_buffer_read(). BERTH_INVALID_ARGUMENT also: no sources, one of another runtime,
///         or sizes that do not add up.
BERTH_API berth_status berth_buffer_gather(berth_runtime* runtime, void* target, size_t bytes,
                                           berth_buffer* const* sources, size_t source_count,
                                           const berth_transfer_options* options,
                                           berth_transfer** transfer);

/// A mapping of host memory for the devices of a backend. Safe from any thread, as long as it is
/// freed once.
typedef struct berth_host_mapping berth_host_mapping;

/// Maps host memory for all devices of the backend of `device`, so that they read and write it
/// themselves: what pinned memory is for CUDA. The memory must stay as it is until the mapping is
/// freed.
/// Errors  BERTH_INVALID_ARGUMENT: no such device; memory of a CUDA device; a range that wraps
///         around or overlaps memory that is mapped for the backend. BERTH_NOT_SUPPORTED: the
///         backend maps no memory. BERTH_BACKEND_ERROR. BERTH_OUT_OF_MEMORY. Nothing is mapped
///         then.
BERTH_API berth_status berth_host_mapping_create(berth_runtime* runtime, berth_device device,
                                                 void* data, size_t bytes,
                                                 berth_host_mapping** mapping);
/// Ends the mapping. Transfers of the memory must be over. Null: no effect.
BERTH_API void berth_host_mapping_free(berth_host_mapping* mapping);

/// Buffers of one device, and what was copied.
typedef struct berth_buffer_counters {
  size_t struct_size;
  uint64_t buffers_live;
  uint64_t bytes_live;
  uint64_t bytes_live_peak;
  uint64_t buffers_created;
  uint64_t bytes_written;  ///< from host memory and files
  uint64_t bytes_read;     ///< to host memory and files
  uint64_t bytes_copied;   ///< to this device from devices of the same backend
} berth_buffer_counters;

#define BERTH_BUFFER_COUNTERS_INIT \
  { sizeof(berth_buffer_counters), 0, 0, 0, 0, 0, 0, 0 }

BERTH_API berth_status berth_buffer_get_counters(berth_runtime* runtime, berth_device device,
                                                 berth_buffer_counters* counters);

#ifdef __cplusplus
}
#endif

#endif
