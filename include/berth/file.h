/* SPDX-License-Identifier: Apache-2.0 */
// Files as one side of a copy: a range of a file is read into device memory, or written from it.
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

/// An open file. Needs no runtime. Safe from any thread, as long as it is closed once.
typedef struct berth_file berth_file;

/// How copies between a file and a device read and write the file: FileCaching in C++.
enum {
  BERTH_FILE_AUTOMATIC = 0,  ///< reads cached pages from the page cache, and the rest directly
  BERTH_FILE_CACHED = 1,     ///< through the page cache
  BERTH_FILE_DIRECT = 2      ///< by O_DIRECT, without the page cache
};

/// Opens an existing file to read. `caching`: BERTH_FILE_AUTOMATIC or a similar value.
/// Errors  BERTH_FILE. BERTH_INVALID_ARGUMENT: another `caching`.
BERTH_API berth_status berth_file_open_to_read(const char* path, int caching, berth_file** file);
/// Opens a file to write. Creates it if it does not exist; an existing file keeps its content.
/// Errors  As berth_file_open_to_read().
BERTH_API berth_status berth_file_open_to_write(const char* path, int caching, berth_file** file);
/// Copies in progress keep the file open. Null: no effect.
BERTH_API void berth_file_close(berth_file* file);

/// Current size in bytes.
BERTH_API berth_status berth_file_get_size(berth_file* file, uint64_t* bytes);
/// Copies `bytes` at `offset` of the file into host memory, on the calling thread. 0 bytes: no
/// effect, for any memory.
/// Errors  BERTH_FILE: also if the file ends before the range does. BERTH_INVALID_ARGUMENT: a file
///         that is open to write.
BERTH_API berth_status berth_file_read(berth_file* file, void* target, size_t bytes,
                                       uint64_t offset);
/// Copies host memory to `offset` of the file, on the calling thread. 0 bytes: no effect, for any
/// memory.
/// Errors  BERTH_FILE: some of the bytes may have been written. BERTH_INVALID_ARGUMENT: a file that
///         is open to read.
BERTH_API berth_status berth_file_write(berth_file* file, const void* source, size_t bytes,
                                        uint64_t offset);
/// Returns when all written data is on the disk. Does not wait for copies in progress.
/// Errors  BERTH_FILE.
BERTH_API berth_status berth_file_sync(berth_file* file);

/// Reads `bytes` at `offset` of the file into device memory in the order of `stream`, and returns
/// immediately. `options` and `transfer` are those of berth_transfer_start().
/// Errors  As berth_transfer_start(). BERTH_FILE: the file ends before the range does; later
///         failures are reported by the transfer. BERTH_INVALID_ARGUMENT: also host memory, or a
///         file that is open to write.
BERTH_API berth_status berth_transfer_start_from_file(berth_runtime* runtime, void* target,
                                                      berth_file* source, uint64_t offset,
                                                      size_t bytes, berth_stream stream,
                                                      const berth_transfer_options* options,
                                                      berth_transfer** transfer);
/// Writes device memory to the file in the order of `stream`, and returns immediately. A full disk
/// ends the transfer with BERTH_FILE; bytes written before remain in the file.
/// Errors  As berth_transfer_start(). BERTH_FILE: the range wraps around. BERTH_INVALID_ARGUMENT:
///         also host memory, or a file that is open to read.
BERTH_API berth_status berth_transfer_start_to_file(berth_runtime* runtime, berth_file* target,
                                                    uint64_t offset, const void* source,
                                                    size_t bytes, berth_stream stream,
                                                    const berth_transfer_options* options,
                                                    berth_transfer** transfer);

#ifdef __cplusplus
}
#endif

#endif
