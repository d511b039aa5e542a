// SPDX-License-Identifier: Apache-2.0
// Memory that ends under work, is used after its end, or has its addresses given to something else.
#include "sim/misuses/misuse.hpp"

namespace berth::test {
namespace {

void unmapped_under_a_kernel(Machine& m) {
  const CUdeviceptr weights = m.map_new("weights");
  const CUstream kernels = m.stream("kernels");
  m.launch_reading(kernels, weights, kMachineGranule);
  if (!m.planted) TRY(cuStreamSynchronize, kernels);
  Machine::unmap(weights);
}

void unmapped_after_waiting_for_another_device(Machine& m) {
  const CUcontext second = m.second_context();
  const CUdeviceptr weights = m.map_new("weights");
  const CUstream kernels = m.stream("kernels");
  m.launch_reading(kernels, weights, kMachineGranule);
  {
    const Current current(m.planted ? second : m.context);
    TRY(cuCtxSynchronize);
  }
  Machine::unmap(weights);
}

void unmapped_after_destroying_the_stream(Machine& m) {
  const CUdeviceptr scratch = m.map_new("scratch");
  CUstream fills = nullptr;
  TRY(cuStreamCreateWithPriority, &fills, CU_STREAM_NON_BLOCKING, 0);
  m.name(fills, "fills");
  TRY(cuMemsetD8Async, scratch, 0, kMachineGranule, fills);
  if (!m.planted) TRY(cuStreamSynchronize, fills);
  TRY(cuStreamDestroy, fills);
  Machine::unmap(scratch);
}

// The address stays valid, so that the work may meet the new memory instead of a fault.
void remapped_under_a_copy(Machine& m) {
  const CUdeviceptr staging = m.pinned("staging", kMachineGranule);
  const CUdeviceptr cache = m.map_new("cache");
  const CUstream copies = m.stream("copies");
  TRY(cuMemcpyAsync, cache, staging, kMachineGranule, copies);
  if (!m.planted) TRY(cuStreamSynchronize, copies);
  TRY(cuMemUnmap, cache, kMachineGranule);
  const CUmemGenericAllocationHandle other = Machine::create();
  Machine::map(cache, other);
  Machine::allow(cache);
  TRY(cuMemRelease, other);
  const CUresult copied = CU(cuStreamSynchronize)(copies);
  // With the mistake it may have met the moment in which nothing was mapped.
  if (!m.planted) check("cuStreamSynchronize", copied);
  Machine::unmap(cache);
}

// cuMemFree waits for the work of its own context, and not for that of a peer.
void freed_under_the_copy_of_a_peer(Machine& m) {
  const CUcontext second = m.second_context();
  CUdeviceptr produced = 0;
  TRY(cuMemAlloc, &produced, kBytes);
  m.name(produced, kBytes, "produced");
  CUstream fetches = nullptr;
  {
    const Current current(second);
    fetches = m.stream("fetches");
    const CUdeviceptr received = m.memory("received");
    TRY(cuMemcpyPeerAsync, received, second, produced, m.context, kBytes, fetches);
    if (!m.planted) TRY(cuStreamSynchronize, fetches);
  }
  TRY(cuMemFree, produced);
}

void kernel_after_the_free(Machine& m) {
  const CUstream kernels = m.stream("kernels");
  CUdeviceptr scratch = 0;
  TRY(cuMemAlloc, &scratch, kBytes);
  if (m.planted) TRY(cuMemFree, scratch);
  m.launch_writing(kernels, scratch);
  TRY(cuStreamSynchronize, kernels);
  TRY(cuMemFree, scratch);
}

// A table that grew: its memory is mapped elsewhere, and one user keeps the old address.
void old_address_after_a_move(Machine& m) {
  const CUstream fills = m.stream("fills");
  const CUdeviceptr before = m.reserve("before");
  const CUdeviceptr after = m.reserve("after");
  const CUmemGenericAllocationHandle physical = Machine::create();
  Machine::map(before, physical);
  Machine::allow(before);
  TRY(cuMemUnmap, before, kMachineGranule);
  Machine::map(after, physical);
  Machine::allow(after);
  TRY(cuMemsetD8Async, m.planted ? before : after, 0, kMachineGranule, fills);
  TRY(cuStreamSynchronize, fills);
  TRY(cuMemAddressFree, before, kMachineGranule);
  TRY(cuMemRelease, physical);
  Machine::unmap(after);
}

void graph_outlives_its_memory(Machine& m) {
  const CUstream frames = m.stream("frames");
  CUdeviceptr image = 0;
  TRY(cuMemAlloc, &image, kBytes);
  const CUgraphExec clear =
      m.captured(frames, [&] { TRY(cuMemsetD8Async, image, 0, kBytes, frames); });
  if (m.planted) TRY(cuMemFree, image);
  TRY(cuGraphLaunch, clear, frames);
  TRY(cuStreamSynchronize, frames);
  TRY(cuMemFree, image);
}

// One launch went wrong, nobody looked, and an innocent call is told.
void fault_that_nobody_looked_at(Machine& m) {
  const CUstream kernels = m.stream("kernels");
  const CUdeviceptr table = m.memory("table");
  m.launch_reading(kernels, table, m.planted ? 2 * kBytes : kBytes);
  CU(cuStreamSynchronize)(kernels);
  m.memory("next");
}

constexpr Misuse kLifetimeMisuses[] = {
    {"memory is unmapped under a kernel", unmapped_under_a_kernel,
     "race: cuMemUnmap ends weights, while a kernel on stream kernels reads weights"},
    {"memory is unmapped after waiting for another device",
     unmapped_after_waiting_for_another_device,
     "race: cuMemUnmap ends weights, while a kernel on stream kernels reads weights"},
    {"memory is unmapped after destroying the stream that uses it",
     unmapped_after_destroying_the_stream,
     "race: cuMemUnmap ends scratch, while cuMemsetD8Async on stream fills writes scratch"},
    {"an address gets other memory under a copy", remapped_under_a_copy,
     "race: cuMemUnmap ends cache, while cuMemcpyAsync on stream copies writes cache"},
    {"memory is freed while a peer copies from it", freed_under_the_copy_of_a_peer,
     "race: cuMemFree ends produced, while cuMemcpyPeerAsync on stream fetches reads produced"},
    {"a kernel uses memory after its free", kernel_after_the_free,
     "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"an old address is used after the memory has moved", old_address_after_a_move,
     "cuMemsetD8Async: CUDA_ERROR_INVALID_VALUE"},
    {"a graph is launched after its memory was freed", graph_outlives_its_memory,
     "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"a fault is overlooked, and meets the next call", fault_that_nobody_looked_at,
     "cuMemAlloc: CUDA_ERROR_ILLEGAL_ADDRESS"},
};

}  // namespace

std::span<const Misuse> lifetime_misuses() {
  return kLifetimeMisuses;
}

}  // namespace berth::test
