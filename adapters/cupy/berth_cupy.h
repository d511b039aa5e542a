// SPDX-License-Identifier: Apache-2.0
// libberth_cupy.so: berth as the source of CuPy's pools, in the form of its CFunctionAllocator. It
// does not depend on CuPy. `import berth.cupy` does it (docs/adapters/cupy.md).
//
// Memory   CuPy's pools allocate and free segments as cudaMalloc() and cudaFree() do: memory is
//          ready for every stream, and its free waits for the device.
// Threads  Every function may be called from several threads at once.
// Errors   Nothing is thrown. A failure prints one line on the standard error stream, and changes
//          nothing; CuPy raises its out-of-memory error for null.
// Fork     In a child made by fork(), allocations fail, and frees have no effect.
#pragma once

#include <stddef.h>

#include "berth/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Allocates device memory that every stream may use. `runtime` is a berth_runtime*; `device` the
/// index of cupy.cuda.Device. null for 0 bytes, and if memory is short.
/// Blocking  Waits for the work that used the memory before.
BERTH_API void* berth_cupy_malloc(void* runtime, size_t bytes, int device);
/// Frees a block of berth_cupy_malloc(). null: no effect.
/// Blocking  Waits until the device is idle. If that fails, the block is not reused. It fails while
///           a stream of the device is captured, which a wait would end.
BERTH_API void berth_cupy_free(void* runtime, void* data, int device);

/// Allocates page-locked host memory near `device`, which every device can access. null as above.
BERTH_API void* berth_cupy_pinned_malloc(void* runtime, size_t bytes, int device);
/// Frees a block of berth_cupy_pinned_malloc(), which no work may use any more, as CuPy's pool of
/// pinned memory makes sure. null: no effect.
BERTH_API void berth_cupy_pinned_free(void* runtime, void* data, int device);

#ifdef __cplusplus
}
#endif
