// SPDX-License-Identifier: Apache-2.0
// Contexts that a caller creates beside the primary ones.
// Source: CUDA Driver API, "Context Management".
#include "sim/call.hpp"
#include "sim/check/leaks.hpp"

namespace berth::sim {
namespace {

// The parameters configure processor limits and graphics clients, which are not simulated.
CUresult check_parameters(const CUctxCreateParams* parameters) {
  if (parameters == nullptr) return CUDA_SUCCESS;
  const bool limits_processors = parameters->execAffinityParams != nullptr;
  const bool shares_with_graphics = parameters->cigParams != nullptr;
  return limits_processors == shares_with_graphics ? CUDA_ERROR_INVALID_VALUE
                                                   : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

CUresult berth_sim_cuCtxCreate(CUcontext* context, CUctxCreateParams* parameters, unsigned flags,
                               CUdevice device) {
  Call call(Function::k_cuCtxCreate, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  if (context == nullptr || !are_context_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
  if (!state.is_ordinal(device)) return CUDA_ERROR_INVALID_DEVICE;
  const CUresult accepted = check_parameters(parameters);
  if (accepted != CUDA_SUCCESS) return accepted;
  if (state.device_at(device).lost) return CUDA_ERROR_UNKNOWN;
  Context& made = make_context(state, device);
  made.flags = flags;
  this_thread().enter(state.id);
  this_thread().stack.push_back(made.handle);
  *context = from_handle<CUcontext>(made.handle);
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuCtxDestroy(CUcontext context) {
  Call call(Function::k_cuCtxDestroy, Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const Handle handle = to_handle(context);
  const auto is_own = [&] {
    const Context* found = state.contexts.find(handle);
    return found != nullptr && !found->primary;
  };
  // The context is destroyed after its work. Another thread may destroy it during the wait.
  while (is_own() && !finish_work(state, handle)) {
  }
  if (!is_own()) return CUDA_ERROR_INVALID_CONTEXT;
  check_leaks(state, *state.contexts.find(handle), call.site());
  destroy_context(state, *state.contexts.find(handle));
  this_thread().enter(state.id);
  std::vector<Handle>& stack = this_thread().stack;
  if (!stack.empty() && stack.back() == handle) stack.pop_back();
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
