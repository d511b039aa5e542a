// SPDX-License-Identifier: Apache-2.0
// Copies of contiguous bytes.
// Source: CUDA Driver API, "Memory Management".
#include "sim/graph/capture_rules.hpp"
#include "sim/work/copies.hpp"
#include "sim/work/work_memory.hpp"

namespace berth::sim {
namespace {

constexpr Sides kToDevice{.to = Side::device, .from = Side::host};
constexpr Sides kToHost{.to = Side::host, .from = Side::device};
constexpr Sides kOnDevice{.to = Side::device, .from = Side::device};

/// Looks up a copy from `source_context` to `destination_context`.
CUresult look_up_peer(State& state, CUcontext destination_context, CUcontext source_context,
                      const CopyWork& work, KnownCopy& known) {
  const Context* to_context = state.contexts.find(to_handle(destination_context));
  const Context* from_context = state.contexts.find(to_handle(source_context));
  if (to_context == nullptr || from_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (work.width == 0) return CUDA_SUCCESS;
  const Span to = state.addresses.span(work.destination, work.width);
  const Span from = state.addresses.span(work.source, work.width);
  const bool matches_contexts = to.kind == Span::Kind::device && from.kind == Span::Kind::device &&
                                to.device == to_context->device &&
                                from.device == from_context->device;
  if (!matches_contexts || !may_access(to, *to_context, Access::copy_to) ||
      !may_access(from, *from_context, Access::copy_from))
    return CUDA_ERROR_INVALID_VALUE;
  known = {.work = work, .to_host = false, .from_host = false};
  return CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes,
                                 CUstream stream) {
  Call call(Function::k_cuMemcpyAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return copy_async(call, stream, {destination, source, bytes}, {});
}

CUresult berth_sim_cuMemcpyHtoDAsync(CUdeviceptr destination, const void* source, std::size_t bytes,
                                     CUstream stream) {
  Call call(Function::k_cuMemcpyHtoDAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return copy_async(call, stream, {destination, to_handle(source), bytes}, kToDevice);
}

CUresult berth_sim_cuMemcpyDtoHAsync(void* destination, CUdeviceptr source, std::size_t bytes,
                                     CUstream stream) {
  Call call(Function::k_cuMemcpyDtoHAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return copy_async(call, stream, {to_handle(destination), source, bytes}, kToHost);
}

CUresult berth_sim_cuMemcpyDtoDAsync(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes,
                                     CUstream stream) {
  Call call(Function::k_cuMemcpyDtoDAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return copy_async(call, stream, {destination, source, bytes}, kOnDevice);
}

CUresult berth_sim_cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext destination_context,
                                     CUdeviceptr source, CUcontext source_context,
                                     std::size_t bytes, CUstream stream) {
  Call call(Function::k_cuMemcpyPeerAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  KnownCopy known{};
  const CUresult accepted = look_up_peer(call.state(), destination_context, source_context,
                                         {destination, source, bytes}, known);
  if (accepted == CUDA_ERROR_INVALID_CONTEXT) return accepted;
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  if (accepted != CUDA_SUCCESS || bytes == 0) return accepted;
  const CUresult full = call.make_room(found);
  return full == CUDA_SUCCESS ? queue_copy(call, *found, std::move(known)) : full;
}

CUresult berth_sim_cuMemcpy(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes) {
  Call call(Function::k_cuMemcpy, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return copy_now(call, {destination, source, bytes}, {});
}

CUresult berth_sim_cuMemcpyHtoD(CUdeviceptr destination, const void* source, std::size_t bytes) {
  Call call(Function::k_cuMemcpyHtoD, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return copy_now(call, {destination, to_handle(source), bytes}, kToDevice);
}

CUresult berth_sim_cuMemcpyDtoH(void* destination, CUdeviceptr source, std::size_t bytes) {
  Call call(Function::k_cuMemcpyDtoH, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return copy_now(call, {to_handle(destination), source, bytes}, kToHost);
}

CUresult berth_sim_cuMemcpyDtoD(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes) {
  Call call(Function::k_cuMemcpyDtoD, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  return copy_now(call, {destination, source, bytes}, kOnDevice);
}

// Ordered after all earlier work, and before all later work, of the current context and the two
// named contexts: the documentation of the runtime's function says so, that of the driver does not.
// The host waits here, which CUDA does not promise: the wait orders streams that are created later.
CUresult berth_sim_cuMemcpyPeer(CUdeviceptr destination, CUcontext destination_context,
                                CUdeviceptr source, CUcontext source_context, std::size_t bytes) {
  Call call(Function::k_cuMemcpyPeer, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  KnownCopy known{};
  const CUresult accepted =
      look_up_peer(state, destination_context, source_context, {destination, source, bytes}, known);
  if (accepted != CUDA_SUCCESS || bytes == 0) return accepted;
  const Handle own = call.context().handle;
  const Handle null_stream = call.find_stream(nullptr)->handle;
  const CUresult waited =
      await_contexts(call, {own, to_handle(destination_context), to_handle(source_context)});
  if (waited != CUDA_SUCCESS) return waited;
  Stream* stream = state.streams.find(null_stream);
  if (stream == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  const Ticket ticket = state.scheduler.submit(*stream, std::move(known.work));
  return call.wait({{ticket}, stream->order.clock}, own);
}

}  // namespace berth::sim
