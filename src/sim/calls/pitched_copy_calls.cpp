// SPDX-License-Identifier: Apache-2.0
// Pitched copies between linear memory.
// Source: CUDA Driver API, cuMemcpy2D, cuMemcpy3D, cuMemcpy3DPeer.
#include "sim/work/volumes.hpp"

namespace berth::sim {
namespace {

/// Of several stretches, none is copied if one is refused.
CUresult look_up_all(Call& call, CUstream stream, const Stretches& read) {
  const Stream* const found = call.find_stream(stream);
  if (found == nullptr || read.copies.size() < 2) return CUDA_SUCCESS;
  const Context& context = *call.state().contexts.find(found->context);
  for (const CopyWork& work : read.copies) {
    KnownCopy known;
    const CUresult accepted = look_up(call.state(), context, work, read.sides, known);
    if (accepted != CUDA_SUCCESS) return accepted;
  }
  return CUDA_SUCCESS;
}

template <class Parameters>
CUresult copy_rows_now(Function function, const Parameters* copy) {
  Call call(function, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stretches read;
  CUresult result = read_copy(copy, read);
  if (result == CUDA_SUCCESS) result = look_up_all(call, nullptr, read);
  for (const CopyWork& work : read.copies)
    if (result == CUDA_SUCCESS) result = copy_now(call, work, read.sides);
  return result;
}

template <class Parameters>
CUresult copy_rows_async(Function function, const Parameters* copy, CUstream stream) {
  Call call(function, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stretches read;
  CUresult result = read_copy(copy, read);
  if (result == CUDA_SUCCESS && read.copies.empty())
    return copy_async(call, stream, CopyWork{}, read.sides);
  if (result == CUDA_SUCCESS) result = look_up_all(call, stream, read);
  for (const CopyWork& work : read.copies)
    if (result == CUDA_SUCCESS) result = copy_async(call, stream, work, read.sides);
  return result;
}

/// Whether device memory of the copy is on the devices of the contexts that are named for it.
CUresult check_contexts(State& state, const CUDA_MEMCPY3D_PEER& copy, const Stretches& read) {
  const Context* const to = state.contexts.find(to_handle(copy.dstContext));
  const Context* const from = state.contexts.find(to_handle(copy.srcContext));
  if (to == nullptr || from == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const auto matches = [&](std::uint64_t address, const Context& context) {
    const Span span = state.addresses.span(address, 1);
    return span.kind != Span::Kind::device || span.device == context.device;
  };
  for (const CopyWork& work : read.copies)
    if (!matches(work.destination, *to) || !matches(work.source, *from))
      return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuMemcpy2D(const CUDA_MEMCPY2D* copy) {
  return copy_rows_now(Function::k_cuMemcpy2D, copy);
}

CUresult berth_sim_cuMemcpy2DUnaligned(const CUDA_MEMCPY2D* copy) {
  return copy_rows_now(Function::k_cuMemcpy2DUnaligned, copy);
}

CUresult berth_sim_cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return copy_rows_async(Function::k_cuMemcpy2DAsync, copy, stream);
}

CUresult berth_sim_cuMemcpy3D(const CUDA_MEMCPY3D* copy) {
  return copy_rows_now(Function::k_cuMemcpy3D, copy);
}

CUresult berth_sim_cuMemcpy3DAsync(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return copy_rows_async(Function::k_cuMemcpy3DAsync, copy, stream);
}

// As cuMemcpyPeer: after all earlier work of the three contexts, and the host waits.
CUresult berth_sim_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) {
  Call call(Function::k_cuMemcpy3DPeer, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  Stretches read;
  CUresult result = read_copy(copy, read);
  if (result == CUDA_SUCCESS) result = check_contexts(state, *copy, read);
  if (result == CUDA_SUCCESS) result = look_up_all(call, nullptr, read);
  if (result != CUDA_SUCCESS || read.copies.empty()) return result;
  const Handle own = call.context().handle;
  result = await_contexts(call, {own, to_handle(copy->dstContext), to_handle(copy->srcContext)});
  for (const CopyWork& work : read.copies)
    if (result == CUDA_SUCCESS) result = copy_now(call, work, read.sides);
  return result == CUDA_SUCCESS ? await_contexts(call, {own}) : result;
}

CUresult berth_sim_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  Call call(Function::k_cuMemcpy3DPeerAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stretches read;
  CUresult result = read_copy(copy, read);
  if (result == CUDA_SUCCESS) result = check_contexts(call.state(), *copy, read);
  if (result == CUDA_SUCCESS) result = look_up_all(call, stream, read);
  for (const CopyWork& work : read.copies)
    if (result == CUDA_SUCCESS) result = copy_async(call, stream, work, read.sides);
  return result;
}

}  // namespace berth::sim
