// SPDX-License-Identifier: Apache-2.0
// libberth_torch.so: berth as an allocator of PyTorch. It does not depend on PyTorch, whose
// torch.cuda.memory.CUDAPluggableAllocator finds these functions by name, or gets their addresses.
// `import berth.torch` does it (docs/adapters/pytorch.md).
//
// Streams  A stream is a CUstream of the device's primary context; null is the legacy default
//          stream. The per-thread default stream cannot order memory and is refused. PyTorch never
//          destroys its streams. A stream that another program destroys must be idle, because berth
//          is not notified.
// Threads  Every function may be called from several threads at once.
// Errors   The functions whose comments say so throw a C++ exception derived from std::exception,
//          which PyTorch turns into a RuntimeError. Other failures print one line on the standard
//          error stream, and change nothing.
// Fork     In a child made by fork(), allocations fail, and all other functions have no effect.
// Process  The first call creates a berth_runtime, which reads berth's environment variables and
//          lives until the process ends, because an interpreter frees its last tensors after
//          everything else.
#pragma once

#include <stddef.h>

#include "berth/export.h"
#include "berth/runtime.h"

#ifdef __cplusplus
#include <functional>
#include <utility>

namespace berth::torch {
class MemoryFunctions;
}

extern "C" {
#endif

/// Allocates `bytes` of device memory, ordered on `stream`. null for 0 bytes, and if memory is
/// short. For torch.cuda.MemPool, which raises an out-of-memory error for null, and for CuPy. For
/// the allocator of the process, PyTorch does not check for null: the first kernel that uses the
/// memory fails, and the CUDA context with it. `device`: the index of torch.device("cuda", index).
BERTH_API void* berth_torch_alloc(size_t bytes, int device, void* stream);

/// Like berth_torch_alloc(), but throws if memory is short or the arguments are wrong. For the
/// allocator of the process.
BERTH_API void* berth_torch_alloc_or_throw(size_t bytes, int device, void* stream);

/// Frees a block of berth_torch_alloc(); work that was submitted to the block's stream before may
/// still use it. `bytes` and `stream` are ignored; `device` is the block's own. null: no effect.
BERTH_API void berth_torch_free(void* data, size_t bytes, int device, void* stream);

/// The runtime of the process, whose first call creates it; null if that fails. It is never
/// destroyed, and must not be.
BERTH_API berth_runtime* berth_torch_runtime(void);

// The hooks of CUDAPluggableAllocator. Each names the function that gets its address.

/// set_init_fn(): creates the runtime, so that a wrong option is reported at once. Throws.
BERTH_API void berth_torch_init(int device_count);

/// set_record_stream_fn(): delays reuse of the block until the work that `stream` holds when the
/// block is freed is done. No effect if `data` is not memory of berth, because PyTorch calls this
/// for tensors of any memory.
BERTH_API void berth_torch_record_stream(void* data, void* stream);

/// set_reset_fn(), which torch.cuda.empty_cache() calls: returns cached memory of every device to
/// the driver, and closes released pools. Waits for the GPU.
BERTH_API void berth_torch_reset(void);

/// set_memory_fraction_fn(): limits reserved memory to this part, 0 to 1, of the device's memory,
/// and to no more than BERTH_CONF allows. Memory that is already reserved stays until it is cached
/// and returned.
BERTH_API void berth_torch_memory_fraction(double fraction, int device);

/// set_base_alloc_fn(): the start of the block that contains `data`, and in `*bytes` its size as
/// requested. `bytes` may be null. Throws if there is no live block.
BERTH_API void* berth_torch_base_alloc(void* data, size_t* bytes);

#ifdef __cplusplus
/// What the allocator needs that berth.torch compiles for an installed PyTorch
/// (memory_functions.hpp). null if it was compiled for another version, or the runtime cannot be
/// created. Never destroyed.
BERTH_API berth::torch::MemoryFunctions* berth_torch_functions(int version);

/// set_begin_allocate_to_pool(): requests of `device` on streams that `filter` accepts are served
/// by the pool `id`, until berth_torch_end_allocate_to_pool(). Creates the pool, for memory that
/// CUDA graphs use, or counts one more use of it. The latest call comes first. `filter` is called
/// without a lock, on the thread of the request, and may call this library; what it throws passes
/// through berth_torch_alloc_or_throw(). Throws.
BERTH_API void berth_torch_begin_allocate_to_pool(
    int device, std::pair<unsigned long long, unsigned long long> id,
    std::function<bool(struct CUstream_st*)> filter);

/// set_end_allocate_to_pool_fn(): ends the latest route to the pool. The pool keeps its memory.
BERTH_API void berth_torch_end_allocate_to_pool(
    int device, std::pair<unsigned long long, unsigned long long> id);

/// set_release_pool(): ends one use of the pool. After the last one, the pool is closed when memory
/// is short or by berth_torch_reset(), which wait for the device, because a launch of its graph may
/// be pending. Blocks stay valid.
BERTH_API void berth_torch_release_pool(int device,
                                        std::pair<unsigned long long, unsigned long long> id);
}
#endif
