// SPDX-License-Identifier: Apache-2.0
// Copies and fills.
// Source: CUDA Driver API, "API synchronization behavior", "Unified Addressing".
#include <cstring>
#include <new>

#include "sim/call.hpp"
#include "sim/capture_rules.hpp"
#include "sim/host_memory.hpp"
#include "sim/work_memory.hpp"

namespace berth::sim {
namespace {

/// Whether a copy of `bytes` may use `span` at `address`.
bool is_usable(const Span& span, const Context& context, std::uint64_t address, std::size_t bytes,
               Access access) {
  if (span.kind == Span::Kind::invalid) return false;
  if (span.kind == Span::Kind::pageable)
    return is_host_memory(reinterpret_cast<void*>(address), bytes);
  return may_access(span, context, access);
}

bool is_host(const Span& span) {
  return span.kind != Span::Kind::device;
}

/// Keeps the source as it is now. False where the system has no room.
bool stage(CopyWork& copy) {
  copy.staged.reset(new (std::nothrow) std::byte[copy.bytes]);
  if (copy.staged == nullptr) return false;
  std::memcpy(copy.staged.get(), reinterpret_cast<const void*>(copy.source), copy.bytes);
  return true;
}

CUresult copy_between(Call& call, Stream& stream, CopyWork copy, const Span& to, const Span& from)
    BERTH_REQUIRES(mutex) {
  Scheduler& scheduler = call.state().scheduler;
  copy.destination_pageable = to.kind == Span::Kind::pageable;
  copy.source_pageable = from.kind == Span::Kind::pageable;
  // Captured, it reads and writes what is there at each launch, pageable memory included.
  if (stream.captured.capture != 0) return enqueue(call.state(), stream, std::move(copy));
  const CUresult refusal = refuse_use(call.state(), stream);
  if (refusal != CUDA_SUCCESS) return refusal;
  const bool caller_waits = copy.destination_pageable || (is_host(to) && is_host(from));
  const bool may_outlive_source = copy.source_pageable && !caller_waits;
  if (may_outlive_source && !scheduler.runs_at_once() && !stage(copy))
    return CUDA_ERROR_OUT_OF_MEMORY;
  const Handle context = stream.context;
  const Ticket ticket = scheduler.submit(stream, std::move(copy));
  return caller_waits ? call.wait({{ticket}, stream.order.clock}, context) : CUDA_SUCCESS;
}

}  // namespace

CUresult berth_sim_cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes,
                                 CUstream stream) {
  Call call(Function::k_cuMemcpyAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  if (bytes == 0) return CUDA_SUCCESS;
  const Context& context = *call.state().contexts.find(found->context);
  const Span to = call.state().addresses.span(destination, bytes);
  const Span from = call.state().addresses.span(source, bytes);
  if (!is_usable(to, context, destination, bytes, Access::copy_to) ||
      !is_usable(from, context, source, bytes, Access::copy_from))
    return CUDA_ERROR_INVALID_VALUE;
  return copy_between(call, *found, {destination, source, bytes}, to, from);
}

CUresult berth_sim_cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext destination_context,
                                     CUdeviceptr source, CUcontext source_context,
                                     std::size_t bytes, CUstream stream) {
  Call call(Function::k_cuMemcpyPeerAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  const Context* to_context = state.contexts.find(to_handle(destination_context));
  const Context* from_context = state.contexts.find(to_handle(source_context));
  if (to_context == nullptr || from_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  if (bytes == 0) return CUDA_SUCCESS;
  const Span to = state.addresses.span(destination, bytes);
  const Span from = state.addresses.span(source, bytes);
  const bool where_they_say = to.kind == Span::Kind::device && from.kind == Span::Kind::device &&
                              to.device == to_context->device &&
                              from.device == from_context->device;
  if (!where_they_say || !may_access(to, *to_context, Access::copy_to) ||
      !may_access(from, *from_context, Access::copy_from))
    return CUDA_ERROR_INVALID_VALUE;
  return copy_between(call, *found, {destination, source, bytes}, to, from);
}

CUresult berth_sim_cuMemsetD8Async(CUdeviceptr destination, unsigned char value, std::size_t bytes,
                                   CUstream stream) {
  Call call(Function::k_cuMemsetD8Async, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  if (bytes == 0) return CUDA_SUCCESS;
  const Span to = call.state().addresses.span(destination, bytes);
  const bool ours = to.kind == Span::Kind::device || to.kind == Span::Kind::pinned;
  const Context& context = *call.state().contexts.find(found->context);
  if (!ours || !may_access(to, context, Access::write)) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(call.state(), *found, MemsetWork{destination, bytes, value});
}

}  // namespace berth::sim
