// SPDX-License-Identifier: Apache-2.0
// Device allocations and pinned host memory.
// Source: CUDA Driver API, "Memory Management".
#include "base/arithmetic.hpp"
#include "sim/call.hpp"
#include "sim/check/graph_uses.hpp"
#include "sim/graph/capture_rules.hpp"
#include "sim/memory/host_memory.hpp"
#include "sim/work/pitch.hpp"

namespace berth::sim {
namespace {

// The same as for a pool.
CUresult free_of_graph(Call& call, std::uint64_t start) {
  State& state = call.state();
  const std::shared_ptr<GraphMemory> memory = find_graph_memory(state, start);
  if (!memory->is_allocated() || memory->freed_by_owner) return CUDA_ERROR_INVALID_VALUE;
  state.races.check_end(state, *memory->allocation, call.site());
  state.ended_memory.note(state, *memory->allocation);
  state.addresses.withdraw(*memory->allocation);
  end_allocation(state, memory);
  note_free(state, memory, {.clock = state.order.host()});
  return CUDA_SUCCESS;
}

// Source: CUDA Driver API, cuMemFree: freeing memory of a pool does not synchronize. Work that
// still uses the memory faults.
CUresult free_in_order(Call& call, const Range& range) {
  State& state = call.state();
  if (range.kind == RangeKind::graph_allocation) return free_of_graph(call, range.start);
  MemoryPool& pool = *state.pools.find(range.pool);
  const std::uint64_t start = range.start;
  state.races.check_end(state, range, call.site());
  state.ended_memory.note(state, range);
  state.addresses.withdraw(range);
  pool.release(state, range, {.clock = state.order.host()});
  state.addresses.remove(start);
  return CUDA_SUCCESS;
}

/// The alignment of a texture base, so that every row can be a texture.
constexpr std::size_t kPitchAlignment = 512;

CUresult allocate(Call& call, CUdeviceptr& pointer, std::size_t bytes) {
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  Context& context = call.context();
  const std::uint64_t start =
      call.state().device_at(context.ordinal).linear.allocate(call.state(), context, bytes);
  if (start == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  pointer = start;
  return CUDA_SUCCESS;
}

CUresult allocate_pinned(Call& call, void** pointer, std::size_t bytes, unsigned flags) {
  constexpr unsigned known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (pointer == nullptr || bytes == 0 || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  void* const pages = make_pinned_host_memory(call.state(), call.context(), bytes, flags);
  if (pages == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = pages;
  return CUDA_SUCCESS;
}

// Work of any context may use managed and pinned memory.
CUresult free_pages(Call& call, RangeKind kind, std::uint64_t start) BERTH_REQUIRES(mutex) {
  State& state = call.state();
  const Range* range = state.addresses.find_start(start);
  if (range == nullptr || range->kind != kind) return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal = refuse_unsafe(state);
  if (refusal != CUDA_SUCCESS) return refusal;
  const std::uint64_t id = range->id;
  const CUresult waited = call.wait(state.scheduler.work_in(0), call.context().handle);
  if (waited != CUDA_SUCCESS) return waited;
  range = state.addresses.find_start(start);
  if (range == nullptr || range->id != id) return CUDA_ERROR_INVALID_VALUE;  // freed meanwhile
  note_freed(state, *range, call.site());
  unpin_host_memory(state, *range);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuMemGetInfo(std::size_t* free, std::size_t* total) {
  Call call(Function::k_cuMemGetInfo, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const PhysicalMemory& memory = *call.state().device_at(call.context().ordinal).memory;
  *free = memory.bytes_free();
  *total = memory.bytes_total();
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemAlloc(CUdeviceptr* pointer, std::size_t bytes) {
  Call call(Function::k_cuMemAlloc, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return allocate(call, *pointer, bytes);
}

CUresult berth_sim_cuMemAllocPitch(CUdeviceptr* pointer, std::size_t* pitch, std::size_t width,
                                   std::size_t rows, unsigned element_bytes) {
  Call call(Function::k_cuMemAllocPitch, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (pointer == nullptr || pitch == nullptr || width == 0 || rows == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)
    return CUDA_ERROR_INVALID_VALUE;
  if (width > kPitchMax - kPitchAlignment) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t padded = align_up(width, kPitchAlignment);
  const auto bytes = multiply_add(padded, rows, 0);
  if (!bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = allocate(call, *pointer, *bytes);
  if (result == CUDA_SUCCESS) *pitch = padded;
  return result;
}

// The pages stay in host memory, which every device can access. A program cannot observe whether
// they migrate.
CUresult berth_sim_cuMemAllocManaged(CUdeviceptr* pointer, std::size_t bytes, unsigned flags) {
  Call call(Function::k_cuMemAllocManaged, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const bool is_attached = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
  if (pointer == nullptr || bytes == 0 || !is_attached) return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  void* const pages = make_managed_memory(call.state(), call.context(), bytes);
  if (pages == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = to_handle(pages);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemFree(CUdeviceptr pointer) {
  Call call(Function::k_cuMemFree, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (pointer == 0) return CUDA_SUCCESS;  // runtimes forward cudaFree(0), which creates a context
  State& state = call.state();
  const Range* range = state.addresses.find_start(pointer);
  if (range != nullptr && range->is_variable) return CUDA_ERROR_INVALID_VALUE;
  if (range != nullptr && range->is_stream_ordered()) return free_in_order(call, *range);
  if (range != nullptr && range->kind == RangeKind::managed)
    return free_pages(call, RangeKind::managed, pointer);
  if (range == nullptr || range->kind != RangeKind::allocation) return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  const std::uint64_t id = range->id;
  const CUresult result = call.wait(state.scheduler.work_in(range->context), range->context);
  if (result != CUDA_SUCCESS) return result;
  range = state.addresses.find_start(pointer);
  if (range == nullptr || range->id != id) return CUDA_ERROR_INVALID_VALUE;  // freed meanwhile
  state.races.check_end(state, *range, call.site());
  state.devices[static_cast<std::size_t>(range->device)].linear.release(state, *range);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  Call call(Function::k_cuMemHostAlloc, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return allocate_pinned(call, pointer, bytes, flags);
}

CUresult berth_sim_cuMemAllocHost(void** pointer, std::size_t bytes) {
  Call call(Function::k_cuMemAllocHost, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return allocate_pinned(call, pointer, bytes, 0);
}

CUresult berth_sim_cuMemFreeHost(void* pointer) {
  Call call(Function::k_cuMemFreeHost, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return free_pages(call, RangeKind::host_allocation, to_handle(pointer));
}

CUresult berth_sim_cuMemHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  constexpr unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  constexpr unsigned missing = CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  Call call(Function::k_cuMemHostRegister, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if ((flags & ~(known | missing)) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & missing) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  return register_host_memory(call.state(), call.context(), pointer, bytes);
}

CUresult berth_sim_cuMemHostUnregister(void* pointer) {
  Call call(Function::k_cuMemHostUnregister, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const auto start = reinterpret_cast<std::uint64_t>(pointer);
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Range* range = state.addresses.find_start(start);
  if (range == nullptr || range->kind != RangeKind::host_registration)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  const std::uint64_t id = range->id;
  const CUresult waited = call.wait(state.scheduler.work_in(0), call.context().handle);
  if (waited != CUDA_SUCCESS) return waited;
  range = state.addresses.find_start(start);
  if (range == nullptr || range->id != id) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  note_freed(state, *range, call.site());
  unpin_host_memory(state, *range);
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
