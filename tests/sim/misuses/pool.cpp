// SPDX-License-Identifier: Apache-2.0
// Memory whose life follows streams, and values that order streams.
#include "sim/misuses/misuse.hpp"

namespace berth::test {
namespace {

CUdeviceptr allocate(Machine& m, const char* name, CUstream stream) {
  CUdeviceptr made = 0;
  TRY(cuMemAllocAsync, &made, kBytes, stream);
  m.name(made, kBytes, name);
  return made;
}

void used_before_its_allocation(Machine& m) {
  const CUstream owner = m.stream("owner");
  const CUstream user = m.stream("user");
  const CUevent there = m.event();
  const CUdeviceptr table = allocate(m, "table", owner);
  TRY(cuEventRecord, there, owner);
  if (!m.planted) TRY(cuStreamWaitEvent, user, there, 0);
  m.launch_writing(user, table);
  TRY(cuStreamSynchronize, user);
  TRY(cuMemFreeAsync, table, user);
  TRY(cuCtxSynchronize);
}

void freed_under_another_stream(Machine& m) {
  const CUstream owner = m.stream("owner");
  const CUstream user = m.stream("user");
  const CUevent used = m.event();
  const CUdeviceptr table = allocate(m, "table", owner);
  TRY(cuStreamSynchronize, owner);
  m.launch_reading(user, table);
  TRY(cuEventRecord, used, user);
  if (!m.planted) TRY(cuStreamWaitEvent, owner, used, 0);
  TRY(cuMemFreeAsync, table, owner);
  TRY(cuStreamSynchronize, user);
  TRY(cuStreamSynchronize, owner);
}

void used_behind_its_free(Machine& m) {
  const CUstream owner = m.stream("owner");
  const CUdeviceptr table = allocate(m, "table", owner);
  if (m.planted) TRY(cuMemFreeAsync, table, owner);
  m.launch_reading(owner, table);
  TRY(cuStreamSynchronize, owner);
  TRY(cuMemFreeAsync, table, owner);
}

void copied_behind_its_free(Machine& m) {
  const CUstream owner = m.stream("owner");
  const CUdeviceptr answer = m.pinned("answer");
  const CUdeviceptr table = allocate(m, "table", owner);
  if (m.planted) TRY(cuMemFreeAsync, table, owner);
  TRY(cuMemcpyAsync, answer, table, kBytes, owner);
  TRY(cuStreamSynchronize, owner);
  TRY(cuMemFreeAsync, table, owner);
}

void filled_beside_its_free(Machine& m) {
  const CUstream owner = m.stream("owner");
  const CUstream user = m.stream("user");
  const CUdeviceptr table = allocate(m, "table", owner);
  TRY(cuStreamSynchronize, owner);
  if (!m.planted) TRY(cuMemsetD8Async, table, 1, kBytes, user);
  if (!m.planted) TRY(cuStreamSynchronize, user);
  TRY(cuMemFreeAsync, table, owner);
  if (m.planted) TRY(cuMemsetD8Async, table, 1, kBytes, user);
  TRY(cuStreamSynchronize, user);
  TRY(cuStreamSynchronize, owner);
}

void freed_twice(Machine& m) {
  const CUstream owner = m.stream("owner");
  const CUdeviceptr table = allocate(m, "table", owner);
  TRY(cuMemFreeAsync, table, owner);
  if (m.planted) TRY(cuMemFreeAsync, table, owner);
  TRY(cuStreamSynchronize, owner);
}

void allocation_freed_as_a_pools(Machine& m) {
  const CUstream owner = m.stream("owner");
  const CUdeviceptr table = m.memory("table");
  if (m.planted) TRY(cuMemFreeAsync, table, owner);
}

// cuMemFree waits for nothing where the memory is a pool's.
void freed_at_once_under_a_kernel(Machine& m) {
  const CUstream owner = m.stream("owner");
  const CUdeviceptr table = allocate(m, "table", owner);
  TRY(cuStreamSynchronize, owner);
  m.launch_reading(owner, table);
  if (!m.planted) TRY(cuStreamSynchronize, owner);
  TRY(cuMemFree, table);
}

void pool_that_the_peer_may_not_use(Machine& m) {
  const CUcontext second = m.second_context();
  const CUstream owner = m.stream("owner");
  const CUdeviceptr shared = allocate(m, "shared", owner);
  TRY(cuStreamSynchronize, owner);
  CUmemoryPool pool = nullptr;
  TRY(cuDeviceGetDefaultMemPool, &pool, 0);
  const CUmemAccessDesc access = access_for(1);
  if (!m.planted) TRY(cuMemPoolSetAccess, pool, &access, 1);
  {
    const Current current(second);
    const CUstream kernels = m.stream("kernels");
    m.launch_reading(kernels, shared);
    TRY(cuStreamSynchronize, kernels);
  }
  TRY(cuMemFreeAsync, shared, owner);
  TRY(cuStreamSynchronize, owner);
}

void flag_before_the_data(Machine& m) {
  const CUdeviceptr data = m.memory("data");
  const CUdeviceptr flag = m.memory("flag", sizeof(cuuint32_t));
  const CUstream producer = m.stream("producer");
  const CUstream consumer = m.stream("consumer");
  TRY(cuMemsetD8Async, flag, 0, sizeof(cuuint32_t), producer);
  TRY(cuStreamSynchronize, producer);
  if (m.planted) TRY(cuStreamWriteValue32, producer, flag, 1, 0);
  m.launch_writing(producer, data);
  if (!m.planted) TRY(cuStreamWriteValue32, producer, flag, 1, 0);
  TRY(cuStreamWaitValue32, consumer, flag, 1, CU_STREAM_WAIT_VALUE_EQ);
  m.launch_reading(consumer, data);
  TRY(cuCtxSynchronize);
}

void flag_out_of_step(Machine& m) {
  const CUdeviceptr flags = m.memory("flags", 2 * sizeof(cuuint32_t));
  const CUstream consumer = m.stream("consumer");
  TRY(cuMemsetD8Async, flags, 0, 2 * sizeof(cuuint32_t), consumer);
  TRY(cuStreamWaitValue32, consumer, m.planted ? flags + 2 : flags, 0, CU_STREAM_WAIT_VALUE_EQ);
  TRY(cuStreamSynchronize, consumer);
}

void pool_allocation_is_left(Machine& m) {
  const CUstream owner = m.stream("owner");
  const CUdeviceptr table = allocate(m, "table", owner);
  if (!m.planted) TRY(cuMemFreeAsync, table, owner);
  TRY(cuStreamSynchronize, owner);
}

constexpr Misuse kPoolMisuses[] = {
    {"a pool's memory is used on another stream, not behind its allocation",
     used_before_its_allocation,
     "race: cuMemAllocAsync on stream owner allocates table, while a kernel on stream user writes "
     "table",
     "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"a pool's memory is freed under another stream", freed_under_another_stream,
     "race: cuMemFreeAsync on stream owner frees table, while a kernel on stream user reads table",
     "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"a kernel uses a pool's memory behind its free", used_behind_its_free,
     "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"a copy uses a pool's memory behind its free", copied_behind_its_free,
     "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"a fill of a pool's memory is not behind its free on another stream", filled_beside_its_free,
     "race: cuMemFreeAsync on stream owner frees table, while cuMemsetD8Async on stream user "
     "writes table",
     "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"a pool's memory is freed twice", freed_twice, "cuMemFreeAsync: CUDA_ERROR_INVALID_VALUE"},
    {"memory of no pool is freed in stream order", allocation_freed_as_a_pools,
     "cuMemFreeAsync: CUDA_ERROR_INVALID_VALUE"},
    {"a pool's memory is freed at once, under a kernel", freed_at_once_under_a_kernel,
     "race: cuMemFree ends table, while a kernel on stream owner reads table"},
    {"a kernel uses the memory of a pool that its device was not given access to",
     pool_that_the_peer_may_not_use, "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"a flag is written before the data that it stands for", flag_before_the_data,
     "race: a kernel on stream producer writes data, while a kernel on stream consumer reads data"},
    {"a flag is not at a multiple of its size", flag_out_of_step,
     "cuStreamWaitValue32: CUDA_ERROR_INVALID_VALUE"},
    {"a pool's memory is left", pool_allocation_is_left, "alive: pool allocation table"},
};

}  // namespace

std::span<const Misuse> pool_misuses() {
  return kPoolMisuses;
}

}  // namespace berth::test
