// SPDX-License-Identifier: Apache-2.0
// Queries of contexts.
// Source: CUDA Driver API, "Context Management".
#include "sim/call.hpp"

namespace berth::sim {
namespace {

/// The ABI version of every context since CUDA 3.2.
constexpr unsigned kApiVersion = 3020;

/// Writes the result of `read` for `context`, or for the current context if it is null.
template <class T, class Read>
CUresult query_context(Function function, CUcontext context, T* out, Read&& read) {
  Call call(function, context == nullptr ? Needs::context : Needs::driver);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Context* found =
      context == nullptr ? &call.context() : call.state().contexts.find(to_handle(context));
  if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = read(*found);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuCtxGetApiVersion(CUcontext context, unsigned* version) {
  return query_context(Function::k_cuCtxGetApiVersion, context, version,
                       [](const Context&) { return kApiVersion; });
}

CUresult berth_sim_cuCtxGetId(CUcontext context, unsigned long long* id) {
  return query_context(Function::k_cuCtxGetId, context, id,
                       [](const Context& found) -> unsigned long long { return found.handle; });
}

CUresult berth_sim_cuCtxGetFlags(unsigned* flags) {
  return query_context(Function::k_cuCtxGetFlags, nullptr, flags,
                       [](const Context& found) { return found.flags; });
}

}  // namespace berth::sim
