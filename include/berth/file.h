/* SPDX-License-Identifier: Apache-2.0 */
// Files as a side of a copy: a range of one is read into device memory, or written from it.
#ifndef BERTH_FILE_H
#define BERTH_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "berth/completion_queue.h"
#include "berth/error.h"
#include "berth/export.h"
#include "berth/runtime.h"
#include "berth/stream.h"
#include "berth/transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Needs no runtime. Safe from any thread, as long as it is closed once.
typedef struct berth_file berth_file;

enum {
  BERTH_FILE_AUTOMATIC = 0,  ///< reads: what is in the page cache from there, the rest past it
  BERTH_FILE_CACHED = 1,     ///< through the page cache
  BERTH_FILE_DIRECT = 2      ///< past it, by O_DIRECT
};

/// `caching`: BERTH_FILE_AUTOMATIC or one of its neighbours.
/// Errors  BERTH_FILE. BERTH_INVALID_ARGUMENT: another `caching`.
BERTH_API berth_status berth_file_open_to_read(const char* path, int caching, berth_file** file);
/// Makes the file where there is none, and keeps its content where there is one.
/// Errors  Likewise.
BERTH_API berth_status berth_file_open_to_write(const char* path, int caching, berth_file** file);
/// Copies under way keep the file open for themselves. Null is no operation.
BERTH_API void berth_file_close(berth_file* file);

/// In bytes, now.
BERTH_API berth_status berth_file_get_size(berth_file* file, uint64_t* bytes);
/// Host memory, on the calling thread. 0 bytes is no operation, whatever the memory.
BERTH_API berth_status berth_file_read(berth_file* file, void* target, size_t bytes,
                                       uint64_t offset);
BERTH_API berth_status berth_file_write(berth_file* file, const void* source, size_t bytes,
                                        uint64_t offset);
/// Returns when all that has been written is on the disk.
BERTH_API berth_status berth_file_sync(berth_file* file);

/// Reads `bytes` at `offset` of the file into device memory in the order of `stream`, and returns at
/// once. `on_done`, `user` and `transfer` as of berth_transfer_start().
/// Errors  As berth_transfer_start(). BERTH_FILE: the file ends before; what goes wrong later is for the
///         transfer to tell. BERTH_INVALID_ARGUMENT: also host memory, a file that is open to write.
BERTH_API berth_status berth_transfer_start_from_file(berth_runtime* runtime, void* target,
                                                      berth_file* source, uint64_t offset,
                                                      size_t bytes, berth_stream stream,
                                                      berth_completion_function on_done, void* user,
                                                      berth_transfer** transfer);
/// The other way; the file must be open to write.
BERTH_API berth_status berth_transfer_start_to_file(berth_runtime* runtime, berth_file* target,
                                                    uint64_t offset, const void* source,
                                                    size_t bytes, berth_stream stream,
                                                    berth_completion_function on_done, void* user,
                                                    berth_transfer** transfer);

#ifdef __cplusplus
}
#endif

#endif
