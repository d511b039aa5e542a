// SPDX-License-Identifier: Apache-2.0
// Queries of streams.
// Source: CUDA Driver API, "Stream Management".
#include "sim/call.hpp"

namespace berth::sim {
namespace {

/// Whether `stream` names a stream of the calling thread.
bool is_default(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

/// Writes the result of `read` for the stream.
template <class T, class Read>
CUresult query_stream(Function function, CUstream stream, Needs needs, T* out, Read&& read) {
  Call call(function, needs);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  const Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = read(call.state(), *found);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuStreamGetFlags(CUstream stream, unsigned* flags) {
  return query_stream(Function::k_cuStreamGetFlags, stream, Needs::context, flags,
                      [](const State&, const Stream& found) -> unsigned {
                        return found.kind == StreamKind::non_blocking ? CU_STREAM_NON_BLOCKING
                                                                      : CU_STREAM_DEFAULT;
                      });
}

CUresult berth_sim_cuStreamGetPriority(CUstream stream, int* priority) {
  return query_stream(Function::k_cuStreamGetPriority, stream, Needs::context, priority,
                      [](const State&, const Stream& found) { return found.priority; });
}

CUresult berth_sim_cuStreamGetDevice(CUstream stream, CUdevice* device) {
  return query_stream(Function::k_cuStreamGetDevice, stream, Needs::context, device,
                      [](const State& state, const Stream& found) -> CUdevice {
                        return state.ordinal_of(found.device);
                      });
}

// The next two queries need no current context if a call created the stream.

CUresult berth_sim_cuStreamGetId(CUstream stream, unsigned long long* id) {
  const Needs needs = is_default(stream) ? Needs::context : Needs::driver;
  return query_stream(
      Function::k_cuStreamGetId, stream, needs, id,
      [](const State&, const Stream& found) -> unsigned long long { return found.handle; });
}

CUresult berth_sim_cuStreamGetCtx(CUstream stream, CUcontext* context) {
  const Needs needs = is_default(stream) ? Needs::context : Needs::driver;
  return query_stream(
      Function::k_cuStreamGetCtx, stream, needs, context,
      [](const State&, const Stream& found) { return from_handle<CUcontext>(found.context); });
}

}  // namespace berth::sim
