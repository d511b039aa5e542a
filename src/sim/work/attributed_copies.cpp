// SPDX-License-Identifier: Apache-2.0
#include "sim/work/attributed_copies.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.hpp"
#include "sim/graph/capture_rules.hpp"
#include "sim/work/hidden_stream.hpp"

namespace berth::sim {
namespace {

/// `work` for a wait that already includes all its predecessors, so only its own stamp is added.
/// The clocks of the copies of a batch differ in little else, and each clock has all lanes.
Submitted without_clock(Submitted work) {
  work.clock = {};
  work.clock.include(work.stamp);
  return work;
}

Awaited awaited(const std::vector<Submitted>& works) {
  Awaited all;
  for (const Submitted& work : works) {
    all.tickets.push_back(work.ticket);
    all.clock.join(work.clock);
  }
  return all;
}

/// A capturing stream refuses the call, and its capture continues without the copies. Source:
/// rapidsai/rmm, issue 2518; NVIDIA/cuda-python, pull request 2636.
CUresult find_target(Call& call, CUstream stream, Stream*& found) BERTH_REQUIRES(mutex) {
  found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (found->kind == StreamKind::legacy) return CUDA_ERROR_INVALID_VALUE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const CUresult full = call.make_room(found);
  if (full != CUDA_SUCCESS) return full;
  return found->captured.capture != 0 ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

}  // namespace

bool CopyAttributes::are_valid() const {
  constexpr unsigned known = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
  const bool has_order = order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
                         order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
                         order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
  return has_order && (flags & ~known) == 0;
}

/// The work that the host waits for before the call returns.
struct AttributedCopies::Waits {
  std::vector<Submitted> sources;  ///< reads of the source that must be complete
  Submitted whole;
};

AttributedCopies::AttributedCopies(Call& call, CUstream stream)
    : call_(call), status_(find_target(call, stream, stream_)) {}

CUresult AttributedCopies::add(const CopyWork& work, const CopyAttributes& attributes) {
  BERTH_CHECK(status_ == CUDA_SUCCESS && attributes.are_valid());
  if (work.width == 0 || work.rows == 0) return CUDA_ERROR_INVALID_VALUE;
  Copy copy{.known = {}, .order = attributes.order};
  const Context& context = *call_.state().contexts.find(stream_->context);
  const CUresult accepted = look_up(call_.state(), context, work, {}, copy.known);
  if (accepted != CUDA_SUCCESS) return accepted;
  copy.known.work.is_further = !copies_.empty();
  copies_.push_back(std::move(copy));
  return CUDA_SUCCESS;
}

bool AttributedCopies::make_buffers() {
  for (Copy& copy : copies_) {
    CopyWork& work = copy.known.work;
    if (copy.order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM) continue;
    work.staged.reset(new (std::nothrow) std::byte[work.total()]);
    if (work.staged == nullptr) return false;
  }
  return true;
}

// Each copy has a hidden stream. If the source is read in stream order, the copy reads it, after
// all earlier work of the stream. Otherwise a separate operation without dependencies reads it.
AttributedCopies::Waits AttributedCopies::queue() {
  State& state = call_.state();
  Stream& stream = *stream_;
  const Context& context = *state.contexts.find(stream.context);
  Waits waits;
  std::vector<Submitted> all;
  state.scheduler.hold();
  const Submitted fork = submit_behind(state, stream, WaitWork{}, {});
  for (Copy& copy : copies_) {
    CopyWork& work = copy.known.work;
    Stream& hidden = open_hidden_stream(state, context, stream);
    if (work.staged != nullptr) {
      const FetchWork fetch{work.source,       work.width,           work.rows,
                            work.source_pitch, work.source_pageable, work.staged};
      const Submitted read = submit_behind(state, hidden, fetch, {});
      if (copy.order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)
        waits.sources.push_back(without_clock(read));
    }
    state.order.branch_off(hidden.order, stream.order);
    const Submitted behind_fork{.ticket = fork.ticket};
    all.push_back(without_clock(submit_behind(state, hidden, std::move(work), {behind_fork})));
    state.scheduler.destroy(hidden);  // once its work is done
  }
  waits.whole = submit_behind(state, stream, WaitWork{}, all);
  state.scheduler.release();
  return waits;
}

CUresult AttributedCopies::submit() {
  BERTH_CHECK(status_ == CUDA_SUCCESS && !copies_.empty());
  if (!make_buffers()) return CUDA_ERROR_OUT_OF_MEMORY;
  const bool is_asynchronous =
      std::ranges::all_of(copies_, [](const Copy& copy) { return copy.known.is_asynchronous(); });
  const Handle owner = call_.state().contexts.find(stream_->context)->handle;
  Waits waits = queue();
  const bool is_blocking = call_.state().launch_blocking != LaunchBlocking::none;
  if (!is_asynchronous || is_blocking) waits.sources.push_back(waits.whole);
  return waits.sources.empty() ? CUDA_SUCCESS : call_.wait(awaited(waits.sources), owner);
}

}  // namespace berth::sim
