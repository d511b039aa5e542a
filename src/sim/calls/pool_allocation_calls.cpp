// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation and free. The address is chosen at the call; the memory exists for work
// between the two operations that the calls submit. Source: CUDA Driver API, "Stream Ordered Memory
// Allocator".
#include <memory>

#include "sim/call.hpp"
#include "sim/graph/capture_rules.hpp"
#include "sim/work/hidden_stream.hpp"

namespace berth::sim {
namespace {

/// Allocates in a capture: the graph owns the memory, on the device and with the access of `pool`.
CUresult capture_allocation(State& state, CUdeviceptr& pointer, std::size_t bytes,
                            const MemoryPool& pool, Stream& stream) {
  const std::shared_ptr<GraphMemory> memory =
      make_graph_memory(state, find_capture(state, stream.captured)->graph, pool.device, bytes,
                        pool.readers, pool.writers);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  capture_work(state, stream, ArriveWork{}).memory = memory;
  pointer = memory->start;
  return CUDA_SUCCESS;
}

/// Source: CUDA Driver API, cuMemFreeAsync: in a capture it "must therefore be passed the address
/// of a graph allocation".
CUresult capture_free(State& state, CUdeviceptr pointer, Stream& stream) {
  const std::shared_ptr<GraphMemory> memory = find_graph_memory(state, pointer);
  const Graph& graph = *state.graphs.find(find_capture(state, stream.captured)->graph);
  if (memory == nullptr || !claim_free(state, graph, *memory)) return CUDA_ERROR_INVALID_VALUE;
  capture_work(state, stream, DepartWork{}).memory = memory;
  return CUDA_SUCCESS;
}

/// Frees memory that the launch of a graph left allocated.
CUresult free_of_graph(Call& call, CUdeviceptr pointer, Stream& stream) BERTH_REQUIRES(mutex) {
  State& state = call.state();
  const std::shared_ptr<GraphMemory> memory = find_graph_memory(state, pointer);
  if (memory == nullptr || !memory->is_allocated() || memory->freed_by_owner)
    return CUDA_ERROR_INVALID_VALUE;
  const Submitted freed = submit_behind(state, stream, end_allocation(state, memory), {});
  note_free(state, memory, freed);
  return call.end_submission(stream);
}

/// `pool_handle` 0: the current pool of the stream's device.
CUresult allocate(Call& call, CUdeviceptr* pointer, std::size_t bytes, Handle pool_handle,
                  CUstream stream) BERTH_REQUIRES(mutex) {
  State& state = call.state();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const CUresult full = call.make_room(found);
  if (full != CUDA_SUCCESS) return full;
  const CUresult refusal = refuse_use(state, *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  MemoryPool* const pool = state.pools.find(
      pool_handle != 0 ? pool_handle : state.devices[static_cast<std::size_t>(found->device)].pool);
  if (pool == nullptr || pool->destroyed) return CUDA_ERROR_INVALID_VALUE;
  if (found->captured.capture != 0)
    return capture_allocation(state, *pointer, bytes, *pool, *found);
  const auto room = pool->allocate(state, *found, bytes);
  if (!room) return CUDA_ERROR_OUT_OF_MEMORY;
  const Range& range = state.addresses.add({.kind = RangeKind::pool_allocation,
                                            .start = room->start,
                                            .bytes = bytes,
                                            .device = pool->device,
                                            .block = room->block,
                                            .block_offset = room->block_offset,
                                            .readers = pool->readers,
                                            .writers = pool->writers,
                                            .pool = pool->handle});
  for (const Submitted& free : room->after) {
    state.order.order_after(found->order, free.clock);
    if (!state.scheduler.done(free.ticket)) state.scheduler.submit(*found, WaitWork{}, free.ticket);
  }
  state.scheduler.submit(*found, ArriveWork{std::make_shared<const Range>(range)});
  *pointer = room->start;
  return call.end_submission(*found);
}

}  // namespace

CUresult berth_sim_cuMemAllocAsync(CUdeviceptr* pointer, std::size_t bytes, CUstream stream) {
  Call call(Function::k_cuMemAllocAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return allocate(call, pointer, bytes, 0, stream);
}

CUresult berth_sim_cuMemAllocFromPoolAsync(CUdeviceptr* pointer, std::size_t bytes,
                                           CUmemoryPool pool, CUstream stream) {
  Call call(Function::k_cuMemAllocFromPoolAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  MemoryPool* found = call.state().pools.find(to_handle(pool));
  if (found == nullptr || found->destroyed) return CUDA_ERROR_INVALID_VALUE;
  return allocate(call, pointer, bytes, found->handle, stream);
}

CUresult berth_sim_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  Call call(Function::k_cuMemFreeAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const CUresult full = call.make_room(found);
  if (full != CUDA_SUCCESS) return full;
  const CUresult refusal = refuse_use(state, *found);
  if (refusal != CUDA_SUCCESS) return refusal;
  if (found->captured.capture != 0) return capture_free(state, pointer, *found);
  const Range* range = state.addresses.find_start(pointer);
  if (range != nullptr && range->kind == RangeKind::graph_allocation)
    return free_of_graph(call, pointer, *found);
  if (range == nullptr || range->kind != RangeKind::pool_allocation)
    return CUDA_ERROR_INVALID_VALUE;
  state.order.start();  // an order that was established earlier does not concern this free
  // The range is removed before anything runs: its memory may be allocated again at once. Calls
  // still accept it, because work that they submit may run before the free.
  state.scheduler.hold();
  const Ticket free =
      state.scheduler.submit(*found, DepartWork{std::make_shared<const Range>(*range)});
  state.pools.find(range->pool)
      ->release(state, *range, {free, found->order.latest, found->order.clock});
  state.addresses.remove_in_order(pointer);
  state.scheduler.release();
  return call.end_submission(*found);
}

}  // namespace berth::sim
