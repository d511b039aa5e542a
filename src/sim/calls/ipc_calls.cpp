// SPDX-License-Identifier: Apache-2.0
// Memory and events of other processes.
// Source: CUDA Driver API, "Memory Management": the functions of IPC.
#include <memory>
#include <utility>

#include "sim/call.hpp"
#include "sim/graph/capture_rules.hpp"
#include "sim/memory/ipc_memory.hpp"

namespace berth::sim {

CUresult berth_sim_cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  Call call(Function::k_cuIpcGetMemHandle, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Range* range = call.state().addresses.find(pointer);
  const bool is_allocation =
      range != nullptr && range->kind == RangeKind::allocation && !range->is_variable;
  if (handle == nullptr || !is_allocation) return CUDA_ERROR_INVALID_VALUE;
  return make_ipc_handle(call.state(), *range, *handle);
}

CUresult berth_sim_cuIpcOpenMemHandle(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned flags) {
  Call call(Function::k_cuIpcOpenMemHandle, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (pointer == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal = refuse_unsafe(call.state());
  if (refusal != CUDA_SUCCESS) return refusal;
  return open_ipc_handle(call.state(), call.context(), handle, *pointer);
}

// The same as cuMemFree, but only for this process.
CUresult berth_sim_cuIpcCloseMemHandle(CUdeviceptr pointer) {
  Call call(Function::k_cuIpcCloseMemHandle, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const auto import = state.ipc_imports.find(pointer);
  if (import == state.ipc_imports.end()) return CUDA_ERROR_INVALID_VALUE;
  const CUresult refusal = refuse_unsafe(state);
  if (refusal != CUDA_SUCCESS) return refusal;
  if (--import->second.references != 0) return CUDA_SUCCESS;
  const std::uint64_t id = state.addresses.find_start(pointer)->id;
  const Handle context = import->second.context;
  const CUresult result = call.wait(state.scheduler.work_in(context), context);
  if (result != CUDA_SUCCESS) return result;
  const Range* range = state.addresses.find_start(pointer);
  if (range == nullptr || range->id != id) return CUDA_ERROR_INVALID_VALUE;  // closed meanwhile
  if (state.ipc_imports.at(pointer).references != 0) return CUDA_SUCCESS;    // opened again
  state.races.check_end(state, *range, call.site());
  drop_import(state, *range);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  Call call(Function::k_cuIpcGetEventHandle, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Event* const found = call.state().events.find(to_handle(event));
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // What another process created, it shares itself.
  const bool is_own = (found->flags & CU_EVENT_INTERPROCESS) != 0;
  if (handle == nullptr || !is_own) return CUDA_ERROR_INVALID_VALUE;
  *handle = found->shared->handle();
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  Call call(Function::k_cuIpcOpenEventHandle, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult error = CUDA_SUCCESS;
  std::shared_ptr<InterprocessEvent> shared = InterprocessEvent::open(handle, error);
  if (shared == nullptr) return error;
  Event& made = call.state().events.create(call.context().handle, CU_EVENT_DISABLE_TIMING);
  made.shared = std::move(shared);
  made.made_at = call.state().stacks.here();
  *event = from_handle<CUevent>(made.handle);
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
