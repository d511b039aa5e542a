// SPDX-License-Identifier: Apache-2.0
// libberth_torch.so: berth as an allocator of PyTorch. It does not depend on PyTorch, whose
// torch.cuda.memory.CUDAPluggableAllocator finds these functions by name. docs/pytorch.md describes
// the setup.
//
// Streams  A stream is a CUstream of the device's primary context; null is the legacy default
//          stream. The per-thread default stream cannot order memory and is refused. PyTorch never
//          destroys its streams. A stream that another program destroys must be idle, because berth
//          is not notified.
// Threads  Every function may be called from several threads at once.
// Errors   Only berth_torch_alloc_or_throw() throws. Other failures print one line on the standard
//          error stream, and change nothing.
// Fork     In a child made by fork(), allocations fail, and all other functions have no effect.
// Process  The first call creates a berth::Runtime, which reads berth's environment variables and
//          lives until the process ends, because an interpreter frees its last tensors after
//          everything else.
#pragma once

#include <stddef.h>

#include "berth/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Allocates `bytes` of device memory, ordered on `stream`. null for 0 bytes, and if memory is
/// short. For torch.cuda.MemPool, which raises an out-of-memory error for null, and for CuPy. For
/// the allocator of the process, PyTorch does not check for null: the first kernel that uses the
/// memory fails, and the CUDA context with it. `device`: the index of torch.device("cuda", index).
BERTH_API void* berth_torch_alloc(size_t bytes, int device, void* stream);

/// Like berth_torch_alloc(), but throws if memory is short or the arguments are wrong: a C++
/// exception derived from std::exception, which PyTorch turns into a RuntimeError. For the
/// allocator of the process.
BERTH_API void* berth_torch_alloc_or_throw(size_t bytes, int device, void* stream);

/// Frees a block of berth_torch_alloc(); work that was submitted to the block's stream before may
/// still use it. `bytes` and `stream` are ignored; `device` is the block's own. null: no effect.
BERTH_API void berth_torch_free(void* data, size_t bytes, int device, void* stream);

/// Delays reuse of the block until the work that `stream` holds when the block is freed is done. No
/// effect if `data` is not memory of berth, because PyTorch calls this for tensors of any memory.
/// Pass its address to set_record_stream_fn().
BERTH_API void berth_torch_record_stream(void* data, void* stream);

/// Returns cached memory of every device to the driver; waits for the GPU. Pass its address to
/// set_reset_fn(); torch.cuda.empty_cache() calls it.
BERTH_API void berth_torch_reset(void);

/// Limits reserved memory to this part, 0 to 1, of the device's memory, and to no more than
/// BERTH_CONF allows. Memory that is already reserved stays until it is cached and returned. Pass
/// its address to set_memory_fraction_fn().
BERTH_API void berth_torch_memory_fraction(double fraction, int device);

#ifdef __cplusplus
}
#endif
