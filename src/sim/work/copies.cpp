// SPDX-License-Identifier: Apache-2.0
#include "sim/work/copies.hpp"

#include <cstring>
#include <new>
#include <utility>

#include "sim/graph/capture_rules.hpp"
#include "sim/memory/host_memory.hpp"
#include "sim/work/work_memory.hpp"

namespace berth::sim {
namespace {

bool may_be(Side side, const Span& span) {
  switch (side) {
    case Side::host:
      return span.kind != Span::Kind::device;
    case Side::device:
      return span.kind != Span::Kind::pageable;
    case Side::any:
      return true;
  }
  return false;
}

/// Whether a copy of `bytes` may use `span` at `address`.
bool is_usable(const Span& span, const Context& context, std::uint64_t address, std::size_t bytes,
               Access access) {
  if (span.kind == Span::Kind::invalid) return false;
  if (span.kind == Span::Kind::pageable) return is_pageable_memory(address, bytes, access);
  return may_access(span, context, access);
}

/// Waits for the null stream before pageable memory is read, as CUDA documents. The stream may have
/// been destroyed afterwards.
CUresult wait_before_staging(Call& call, Stream& stream) BERTH_REQUIRES(mutex) {
  const Handle handle = stream.handle;
  const CUresult result = call.wait(call.state().scheduler.work_of(stream), stream.context);
  if (result != CUDA_SUCCESS) return result;
  return call.state().streams.find(handle) == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                      : CUDA_SUCCESS;
}

}  // namespace

CUresult look_up(State& state, const Context& context, CopyWork work, Sides sides,
                 KnownCopy& known) {
  const Span to = state.addresses.span(work.destination, work.destination_extent());
  const Span from = state.addresses.span(work.source, work.source_extent());
  if (!may_be(sides.to, to) || !may_be(sides.from, from)) return CUDA_ERROR_INVALID_VALUE;
  if (!is_usable(to, context, work.destination, work.destination_extent(), Access::copy_to) ||
      !is_usable(from, context, work.source, work.source_extent(), Access::copy_from))
    return CUDA_ERROR_INVALID_VALUE;
  work.destination_pageable = to.kind == Span::Kind::pageable;
  work.source_pageable = from.kind == Span::Kind::pageable;
  known = {.work = std::move(work),
           .to_host = to.kind != Span::Kind::device,
           .from_host = from.kind != Span::Kind::device,
           .device_accessible = state.config.pageable_access == PageableAccess::host_page_tables};
  return CUDA_SUCCESS;
}

bool stage(CopyWork& work) {
  work.staged.reset(new (std::nothrow) std::byte[work.total()]);
  if (work.staged == nullptr) return false;
  for (std::size_t row = 0; row < work.rows; ++row)
    std::memcpy(work.staged.get() + row * work.width,
                reinterpret_cast<const std::byte*>(work.source) + row * work.source_pitch,
                work.width);
  return true;
}

CUresult queue_copy(Call& call, Stream& stream, KnownCopy copy) {
  Scheduler& scheduler = call.state().scheduler;
  // A captured copy accesses the memory at each launch, pageable memory included.
  if (stream.captured.capture != 0) return call.enqueue(stream, std::move(copy.work));
  const CUresult refusal = refuse_use(call.state(), stream);
  if (refusal != CUDA_SUCCESS) return refusal;
  const bool is_asynchronous = copy.is_asynchronous();
  const bool may_outlive_source =
      copy.work.source_pageable && is_asynchronous && !copy.device_accessible;
  if (may_outlive_source && !scheduler.runs_at_once() && !stage(copy.work))
    return CUDA_ERROR_OUT_OF_MEMORY;
  const Handle context = stream.context;
  const Ticket ticket = scheduler.submit(stream, std::move(copy.work));
  return is_asynchronous ? call.end_submission(stream)
                         : call.wait({{ticket}, stream.order.clock}, context);
}

CUresult copy_async(Call& call, CUstream stream, const CopyWork& work, Sides sides) {
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  if (work.width == 0 || work.rows == 0) return CUDA_SUCCESS;
  const CUresult full = call.make_room(found);
  if (full != CUDA_SUCCESS) return full;
  KnownCopy known;
  const Context& context = *call.state().contexts.find(found->context);
  const CUresult accepted = look_up(call.state(), context, work, sides, known);
  if (accepted != CUDA_SUCCESS) return accepted;
  return queue_copy(call, *found, std::move(known));
}

CUresult await_contexts(Call& call, std::initializer_list<Handle> contexts) {
  for (const Handle context : contexts) {
    const Context* const awaited = call.state().contexts.find(context);
    if (awaited == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    const CUresult refusal = refuse_observation(call.state(), *awaited);
    if (refusal != CUDA_SUCCESS) return refusal;
    const CUresult waited = call.wait(call.state().scheduler.work_in(context), context);
    if (waited != CUDA_SUCCESS) return waited;
  }
  return CUDA_SUCCESS;
}

// Source: CUDA Driver API, "API synchronization behavior", "Memcpy", synchronous: pageable memory
// to a device waits for the stream first, and returns when the source has been staged; between
// devices the host does not wait; everything else is done when the call returns. A context with
// CU_CTX_SYNC_MEMOPS always waits, and so does memory with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS.
CUresult copy_now(Call& call, const CopyWork& work, Sides sides) {
  if (work.width == 0 || work.rows == 0) return CUDA_SUCCESS;
  State& state = call.state();
  Stream* stream = call.find_stream(nullptr);
  const CUresult full = call.make_room(stream);
  if (full != CUDA_SUCCESS) return full;
  const Context& null_context = *state.contexts.find(stream->context);
  KnownCopy known;
  const CUresult accepted = look_up(state, null_context, work, sides, known);
  if (accepted != CUDA_SUCCESS) return accepted;
  const CUresult refusal = refuse_observation(state, *stream);
  if (refusal != CUDA_SUCCESS) return refusal;
  const bool waits = (null_context.flags & CU_CTX_SYNC_MEMOPS) != 0 ||
                     is_synchronous(state.addresses.find(work.destination)) ||
                     is_synchronous(state.addresses.find(work.source));
  const bool is_staged = known.work.source_pageable && !known.device_accessible;
  if (is_staged && !known.to_host && !waits) {
    const CUresult waited = wait_before_staging(call, *stream);
    return waited == CUDA_SUCCESS ? queue_copy(call, *stream, std::move(known)) : waited;
  }
  const bool between_devices = !known.to_host && !known.from_host;
  const Handle context = stream->context;
  const Ticket ticket = state.scheduler.submit(*stream, std::move(known.work));
  if (between_devices && !waits) return call.end_submission(*stream);
  return call.wait({{ticket}, stream->order.clock}, context);
}

}  // namespace berth::sim
