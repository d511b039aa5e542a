// SPDX-License-Identifier: Apache-2.0
// libberth_torch.so: berth as an allocator of PyTorch's. It needs nothing of PyTorch, whose
// torch.cuda.memory.CUDAPluggableAllocator finds these functions by their names. docs/pytorch.md says how.
//
// Streams   A stream is a CUstream of the device's primary context; null is the legacy default stream. No memory
//           is ordered on the per-thread default stream, which is refused. PyTorch never destroys its streams;
//           a stream that another program destroys is not heard of, and should be idle then.
// Threads   Every function may be called from several threads at once.
// Errors    No function but berth_torch_alloc_or_throw() throws. What goes wrong is one line on the standard error stream, and changes nothing.
// Fork      In a child made by fork() allocations fail, and all else does nothing.
// Process   The first call makes a berth::Runtime, which reads berth's environment variables and lives until
//           the process ends: an interpreter frees its last tensors after everything else.
#pragma once

#include <stddef.h>

#include "berth/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/// `bytes` of device memory, ordered on `stream`. null for 0 bytes, and where memory is short. For
/// torch.cuda.MemPool, which makes an out-of-memory error of null, and for CuPy. As the allocator of the process
/// PyTorch does not look at null: the first kernel on it fails, and the CUDA context with it.
/// `device`: the index that torch.device("cuda", index) has.
BERTH_API void* berth_torch_alloc(size_t bytes, int device, void* stream);

/// The same, and throws where memory is short or the arguments are wrong: a C++ exception, derived from
/// std::exception, of which PyTorch makes a RuntimeError. For the allocator of the process.
BERTH_API void* berth_torch_alloc_or_throw(size_t bytes, int device, void* stream);

/// Frees a block of berth_torch_alloc(); work that was submitted to the block's stream before may still use
/// it. `bytes` and `stream` are not looked at; `device` is the block's own. null is no block and nothing happens.
BERTH_API void berth_torch_free(void* data, size_t bytes, int device, void* stream);

/// The block's memory is not used again before the work that `stream` has when the block is freed is done.
/// Nothing happens where `data` is no memory of berth's, since PyTorch calls this for tensors of any memory.
/// set_record_stream_fn() takes the address.
BERTH_API void berth_torch_record_stream(void* data, void* stream);

/// Gives cached memory of every device back to the driver; waits for the GPU. set_reset_fn() takes the
/// address, and torch.cuda.empty_cache() calls it.
BERTH_API void berth_torch_reset(void);

/// At most this part, 0 to 1, of the device's memory is reserved, and no more than BERTH_CONF allows. What is
/// reserved already stays until it is cached and given back. set_memory_fraction_fn() takes the address.
BERTH_API void berth_torch_memory_fraction(double fraction, int device);

#ifdef __cplusplus
}
#endif
