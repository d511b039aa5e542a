// SPDX-License-Identifier: Apache-2.0
// Contexts that are missing, ended, or those of another device.
#include <thread>

#include "sim/misuses/misuse.hpp"

namespace berth::test {
namespace {

void worker_without_a_context(Machine& m) {
  const CUdeviceptr table = m.memory("table");
  const CUstream fills = m.stream("fills");
  CUresult filled = CUDA_SUCCESS;
  std::thread([&] {
    if (!m.planted) CU(cuCtxSetCurrent)(m.context);
    filled = CU(cuMemsetD8Async)(table, 0, kBytes, fills);
  }).join();
  check("cuMemsetD8Async", filled);
  TRY(cuStreamSynchronize, fills);
}

void context_popped_twice(Machine& m) {
  TRY(cuCtxPushCurrent, m.context);
  TRY(cuCtxPopCurrent, nullptr);
  if (m.planted) TRY(cuCtxPopCurrent, nullptr);
  m.memory("table");
}

void event_of_another_device(Machine& m) {
  const CUcontext second = m.second_context();
  const CUstream kernels = m.stream("kernels");
  CUevent done = nullptr;
  {
    const Current current(m.planted ? second : m.context);
    done = m.event();
  }
  TRY(cuEventRecord, done, kernels);
  TRY(cuStreamSynchronize, kernels);
}

// A helper has left its own context current.
void stream_of_the_wrong_device(Machine& m) {
  const CUcontext second = m.second_context();
  const CUdeviceptr table = m.memory("table");
  CUstream fills = nullptr;
  {
    const Current current(m.planted ? second : m.context);
    fills = m.stream("fills");
  }
  TRY(cuMemsetD8Async, table, 0, kBytes, fills);
  TRY(cuStreamSynchronize, fills);
}

void memory_of_the_wrong_device(Machine& m) {
  const CUcontext second = m.second_context();
  const CUstream kernels = m.stream("kernels");
  CUdeviceptr table = 0;
  {
    const Current current(m.planted ? second : m.context);
    table = m.memory("table");
  }
  m.launch_reading(kernels, table);
  TRY(cuStreamSynchronize, kernels);
}

void peer_access_not_enabled(Machine& m) {
  const CUcontext second = m.second_context();
  const CUdeviceptr produced = m.memory("produced");
  const Current current(second);
  const CUstream kernels = m.stream("kernels");
  if (!m.planted) TRY(cuCtxEnablePeerAccess, m.context, 0);
  m.launch_reading(kernels, produced);
  TRY(cuStreamSynchronize, kernels);
}

void mapping_that_the_peer_may_not_use(Machine& m) {
  const CUcontext second = m.second_context();
  const CUdeviceptr shared = m.map_new("shared");
  if (!m.planted) Machine::allow(shared, 1);
  {
    const Current current(second);
    const CUstream kernels = m.stream("kernels");
    m.launch_writing(kernels, shared);
    TRY(cuStreamSynchronize, kernels);
  }
  Machine::unmap(shared);
}

void peer_copy_with_the_contexts_exchanged(Machine& m) {
  const CUcontext second = m.second_context();
  const CUdeviceptr here = m.memory("here");
  const CUstream copies = m.stream("copies");
  CUdeviceptr there = 0;
  {
    const Current current(second);
    there = m.memory("there");
  }
  if (m.planted)
    TRY(cuMemcpyPeerAsync, there, m.context, here, second, kBytes, copies);
  else
    TRY(cuMemcpyPeerAsync, there, second, here, m.context, kBytes, copies);
  TRY(cuStreamSynchronize, copies);
}

// One of two users of the context releases it twice.
void context_released_too_often(Machine& m) {
  CUcontext shared = nullptr;
  TRY(cuDevicePrimaryCtxRetain, &shared, 1);
  TRY(cuDevicePrimaryCtxRetain, &shared, 1);
  TRY(cuDevicePrimaryCtxRelease, 1);
  if (m.planted) TRY(cuDevicePrimaryCtxRelease, 1);
  {
    const Current current(shared);
    CUdeviceptr table = 0;
    TRY(cuMemAlloc, &table, kBytes);
    TRY(cuMemFree, table);
  }
  TRY(cuDevicePrimaryCtxRelease, 1);
}

// The memory goes with the context that it was made in.
void context_released_while_its_memory_is_used(Machine& m) {
  const CUdeviceptr here = m.memory("here");
  const CUstream copies = m.stream("copies");
  CUcontext second = nullptr;
  TRY(cuDevicePrimaryCtxRetain, &second, 1);
  CUdeviceptr there = 0;
  {
    const Current current(second);
    TRY(cuMemAlloc, &there, kBytes);
  }
  if (m.planted) TRY(cuDevicePrimaryCtxRelease, 1);
  TRY(cuMemcpyAsync, here, there, kBytes, copies);
  TRY(cuStreamSynchronize, copies);
  TRY(cuMemFree, there);
  TRY(cuDevicePrimaryCtxRelease, 1);
}

constexpr Misuse kContextMisuses[] = {
    {"a thread works without a current context", worker_without_a_context,
     "cuMemsetD8Async: CUDA_ERROR_INVALID_CONTEXT"},
    {"a context is popped more often than it was pushed", context_popped_twice,
     "cuMemAlloc: CUDA_ERROR_INVALID_CONTEXT"},
    {"an event of one device is recorded on a stream of another", event_of_another_device,
     "cuEventRecord: CUDA_ERROR_INVALID_HANDLE"},
    {"a stream is made for the wrong device, and fills memory of the right one",
     stream_of_the_wrong_device, "cuMemsetD8Async: CUDA_ERROR_INVALID_VALUE"},
    {"memory is allocated on the wrong device", memory_of_the_wrong_device,
     "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"a kernel uses memory of a device whose peer access is not enabled", peer_access_not_enabled,
     "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"a kernel uses mapped memory that its device was not given access to",
     mapping_that_the_peer_may_not_use, "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"a copy between devices names their contexts the wrong way round",
     peer_copy_with_the_contexts_exchanged, "cuMemcpyPeerAsync: CUDA_ERROR_INVALID_VALUE"},
    {"a context is released more often than it was retained", context_released_too_often,
     "cuCtxPushCurrent: CUDA_ERROR_INVALID_CONTEXT"},
    {"a context is released while its memory is still used",
     context_released_while_its_memory_is_used,
     "cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE\n"
     "leak: cuDevicePrimaryCtxRelease ends a context of device 1 that still has 1 allocation of "
     "4096 B"},
};

}  // namespace

std::span<const Misuse> context_misuses() {
  return kContextMisuses;
}

}  // namespace berth::test
