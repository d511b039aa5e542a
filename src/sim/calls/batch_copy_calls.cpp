// SPDX-License-Identifier: Apache-2.0
// Batches of copies. The batch is in stream order; its copies are unordered among each other.
// Source: CUDA Driver API, cuMemcpyBatchAsync.
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "sim/graph/capture_rules.hpp"
#include "sim/work/copies.hpp"
#include "sim/work/hidden_stream.hpp"

namespace berth::sim {
namespace {

struct BatchCopy {
  KnownCopy copy;
  CUmemcpySrcAccessOrder order;
};

// A simulated copy always knows the location of its memory, so location hints are ignored.
bool is_valid(const CUmemcpyAttributes& attributes) {
  constexpr unsigned known = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
  const bool has_order = attributes.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
                         attributes.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
                         attributes.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
  return has_order && (attributes.flags & ~known) == 0;
}

/// Whether `firsts`, the index of the first copy of each of `attributes`, starts at 0, increases,
/// and stays below `copies`.
bool are_valid(std::span<const CUmemcpyAttributes> attributes, const std::size_t* firsts,
               std::size_t copies) {
  if (firsts[0] != 0) return false;
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    if (!is_valid(attributes[i]) || firsts[i] >= copies) return false;
    if (i != 0 && firsts[i] <= firsts[i - 1]) return false;
  }
  return true;
}

/// Allocates the buffer of a source that may be read out of order. False if the system is out of
/// memory.
bool make_buffers(std::vector<BatchCopy>& batch) {
  for (BatchCopy& item : batch) {
    CopyWork& work = item.copy.work;
    if (item.order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM) continue;
    work.staged.reset(new (std::nothrow) std::byte[work.width]);
    if (work.staged == nullptr) return false;
  }
  return true;
}

/// The work that the host waits for before the call returns.
struct Waits {
  std::vector<Submitted> sources;  ///< reads of the source that must be complete
  Submitted whole;
};

/// `work` for a wait that already includes all its predecessors, so only its own stamp is added.
/// The clocks of the copies of a batch differ in little else, and each clock has all lanes.
Submitted without_clock(Submitted work) {
  work.clock = {};
  work.clock.include(work.stamp);
  return work;
}

/// Each copy has a hidden stream. If the source is read in stream order, the copy reads it, after
/// all earlier work of `stream`. Otherwise a separate operation without dependencies reads it.
Waits submit(State& state, Stream& stream, std::vector<BatchCopy> batch) BERTH_REQUIRES(mutex) {
  const Context& context = *state.contexts.find(stream.context);
  Waits waits;
  std::vector<Submitted> all;
  state.scheduler.hold();
  const Submitted fork = submit_behind(state, stream, WaitWork{}, {});
  for (BatchCopy& item : batch) {
    CopyWork& work = item.copy.work;
    Stream& hidden = open_hidden_stream(state, context, stream);
    if (work.staged != nullptr) {
      const Submitted read = submit_behind(
          state, hidden, FetchWork{work.source, work.width, work.source_pageable, work.staged}, {});
      if (item.order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)
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

Awaited awaited(const std::vector<Submitted>& works) {
  Awaited all;
  for (const Submitted& work : works) {
    all.tickets.push_back(work.ticket);
    all.clock.join(work.clock);
  }
  return all;
}

}  // namespace

// A capturing stream refuses the call, and its capture continues without the copies. Source:
// rapidsai/rmm, issue 2518.
CUresult berth_sim_cuMemcpyBatchAsync(CUdeviceptr* destinations, CUdeviceptr* sources,
                                      std::size_t* sizes, std::size_t count,
                                      CUmemcpyAttributes* attributes, std::size_t* firsts,
                                      std::size_t attributes_count, CUstream stream) {
  Call call(Function::k_cuMemcpyBatchAsync, Needs::context);
  if (call.refusal() != CUDA_SUCCESS) return call.refusal();
  State& state = call.state();
  if (destinations == nullptr || sources == nullptr || sizes == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (attributes == nullptr || firsts == nullptr || attributes_count == 0 ||
      attributes_count > count || !are_valid({attributes, attributes_count}, firsts, count))
    return CUDA_ERROR_INVALID_VALUE;
  Stream* found = call.find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (found->kind == StreamKind::legacy) return CUDA_ERROR_INVALID_VALUE;
  if (call.fault_of(*found) != CUDA_SUCCESS) return call.fault_of(*found);
  const CUresult full = call.make_room(found);
  if (full != CUDA_SUCCESS) return full;
  if (found->captured.capture != 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;

  const Context& context = *state.contexts.find(found->context);
  std::vector<BatchCopy> batch;
  bool is_asynchronous = true;
  std::size_t group = 0;
  for (std::size_t i = 0; i < count; ++i) {
    while (group + 1 < attributes_count && firsts[group + 1] <= i) ++group;
    if (sizes[i] == 0) return CUDA_ERROR_INVALID_VALUE;
    BatchCopy item{.copy = {}, .order = attributes[group].srcAccessOrder};
    const CUresult accepted =
        look_up(state, context, {destinations[i], sources[i], sizes[i]}, {}, item.copy);
    if (accepted != CUDA_SUCCESS) return accepted;
    item.copy.work.is_further = i != 0;
    is_asynchronous = is_asynchronous && item.copy.is_asynchronous();
    batch.push_back(std::move(item));
  }
  if (!make_buffers(batch)) return CUDA_ERROR_OUT_OF_MEMORY;
  const Handle owner = context.handle;
  Waits waits = submit(state, *found, std::move(batch));
  if (!is_asynchronous || state.launch_blocking) waits.sources.push_back(waits.whole);
  return waits.sources.empty() ? CUDA_SUCCESS : call.wait(awaited(waits.sources), owner);
}

}  // namespace berth::sim
