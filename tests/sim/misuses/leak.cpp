// SPDX-License-Identifier: Apache-2.0
// What a program forgets to end.
#include "sim/misuses/misuse.hpp"

namespace berth::test {
namespace {

void stream_is_left(Machine& m) {
  CUstream fills = nullptr;
  TRY(cuStreamCreateWithPriority, &fills, CU_STREAM_NON_BLOCKING, 0);
  if (!m.planted) TRY(cuStreamDestroy, fills);
}

void event_is_left(Machine& m) {
  CUevent ready = nullptr;
  TRY(cuEventCreate, &ready, CU_EVENT_DISABLE_TIMING);
  if (!m.planted) TRY(cuEventDestroy, ready);
}

void allocation_is_left(Machine& m) {
  CUdeviceptr table = 0;
  TRY(cuMemAlloc, &table, kBytes);
  if (!m.planted) TRY(cuMemFree, table);
}

void pinned_memory_is_left(Machine& m) {
  void* staging = nullptr;
  TRY(cuMemHostAlloc, &staging, kBytes, 0);
  if (!m.planted) TRY(cuMemFreeHost, staging);
}

void registration_is_left(Machine& m) {
  alignas(4096) static unsigned char buffer[kBytes];
  TRY(cuMemHostRegister, buffer, kBytes, 0);
  if (!m.planted) TRY(cuMemHostUnregister, buffer);
}

void addresses_are_left(Machine& m) {
  const CUdeviceptr table = m.map_new("table");
  TRY(cuMemUnmap, table, kMachineGranule);
  if (!m.planted) TRY(cuMemAddressFree, table, kMachineGranule);
}

// Released, its memory would go with the last mapping.
void physical_memory_is_left(Machine& m) {
  const CUdeviceptr table = m.reserve("table");
  const CUmemGenericAllocationHandle physical = Machine::create();
  m.name(physical, kMachineGranule, "physical");
  Machine::map(table, physical);
  if (!m.planted) TRY(cuMemRelease, physical);
  Machine::unmap(table);
}

void mapping_is_left(Machine& m) {
  const CUdeviceptr table = m.map_new("table");
  if (!m.planted) Machine::unmap(table);
}

void graph_is_left(Machine& m) {
  const CUstream frames = m.stream("frames");
  const CUdeviceptr image = m.memory("image");
  CUgraph graph = nullptr;
  TRY(cuStreamBeginCapture, frames, CU_STREAM_CAPTURE_MODE_RELAXED);
  TRY(cuMemsetD8Async, image, 0, kBytes, frames);
  TRY(cuStreamEndCapture, frames, &graph);
  m.name(graph, "frame");
  if (!m.planted) TRY(cuGraphDestroy, graph);
}

void executable_graph_is_left(Machine& m) {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  TRY(cuGraphCreate, &graph, 0);
  TRY(cuGraphInstantiateWithFlags, &executable, graph, 0);
  TRY(cuGraphDestroy, graph);
  m.name(executable, "frame");
  if (!m.planted) TRY(cuGraphExecDestroy, executable);
}

#define LEFT_IN_CONTEXT "leak: cuDevicePrimaryCtxRelease ends a context of device 0 that still has "

constexpr Misuse kLeakMisuses[] = {
    {"a stream is left", stream_is_left, LEFT_IN_CONTEXT "1 stream"},
    {"an event is left", event_is_left, LEFT_IN_CONTEXT "1 event"},
    {"an allocation is left", allocation_is_left, LEFT_IN_CONTEXT "1 allocation of 4096 B"},
    {"pinned memory is left", pinned_memory_is_left,
     LEFT_IN_CONTEXT "1 pinned host allocation of 4096 B"},
    {"a registration is left", registration_is_left,
     LEFT_IN_CONTEXT "1 host registration of 4096 B"},
    {"reserved addresses are left", addresses_are_left, "alive: address reservation table"},
    {"a handle of physical memory is left", physical_memory_is_left,
     "alive: physical handle physical"},
    {"a mapping is left", mapping_is_left,
     "alive: mapping table\nalive: address reservation table"},
    {"an executable graph is left", executable_graph_is_left,
     "alive: executable graph frame, 0 nodes"},
    {"a graph is left", graph_is_left, "alive: graph frame, 1 nodes"},
};

}  // namespace

std::span<const Misuse> leak_misuses() {
  return kLeakMisuses;
}

}  // namespace berth::test
