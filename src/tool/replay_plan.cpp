// SPDX-License-Identifier: Apache-2.0
#include "tool/replay_plan.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "berth/error.hpp"

namespace berth::tool {
namespace {

// Trees and sorted arrays, because a file could choose ids that collide in a hash table.
using IdSet = std::vector<std::int64_t>;  ///< sorted

/// Builds the plan of one device.
class Planner {
 public:
  Planner(const std::string& trace, std::int32_t device) {
    plan_.trace = trace;
    plan_.device = device;
    stream_indexes_.emplace(0, std::uint16_t{0});
  }

  void allocate(const TraceEvent& event) {
    const std::uint32_t slot = take_slot();
    const ReplayOperation operation{event.bytes, slot, stream_index(event.stream), true};
    if (!live_.emplace(event.id, operation).second)
      throw InvalidArgument(
          fmt::format("{}: block {} is allocated while it is live; accepted: one "
                      "allocation for each id",
                      plan_.trace, event.id));
    plan_.operations.push_back(operation);
    ++plan_.allocations;
  }

  void free(const TraceEvent& event) {
    const auto block = live_.find(event.id);
    if (block == live_.end())
      throw InvalidArgument(
          fmt::format("{}: block {} is freed but not live; accepted: one free "
                      "after the allocation",
                      plan_.trace, event.id));
    ReplayOperation operation = block->second;
    operation.allocates = false;
    plan_.operations.push_back(operation);
    free_slots_.push_back(operation.slot);
    live_.erase(block);
  }

  ReplayPlan take() {
    plan_.streams = stream_indexes_.size();
    return std::move(plan_);
  }

 private:
  std::uint32_t take_slot() {
    if (free_slots_.empty()) return std::uint32_t(plan_.slots++);
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  std::uint16_t stream_index(std::int32_t stream) {
    const auto next = stream_indexes_.size();
    const auto [entry, is_new] = stream_indexes_.try_emplace(stream, std::uint16_t(next));
    if (is_new && next > std::numeric_limits<std::uint16_t>::max())
      throw InvalidArgument(
          fmt::format("{}: more than 65535 streams; accepted: at most that many", plan_.trace));
    return entry->second;
  }

  ReplayPlan plan_;
  std::map<std::int64_t, ReplayOperation> live_;
  std::map<std::int32_t, std::uint16_t> stream_indexes_;
  std::vector<std::uint32_t> free_slots_;
};

IdSet completed_ids(const Trace& trace) {
  IdSet ids;
  for (const TraceEvent& event : trace.events)
    if (event.op == TraceOp::free_completed) ids.push_back(event.id);
  std::ranges::sort(ids);
  return ids;
}

bool frees(const TraceEvent& event, const IdSet& completed) {
  switch (event.op) {
    case TraceOp::free:
    case TraceOp::free_completed:
      return true;
    case TraceOp::free_requested:
      return !std::ranges::binary_search(completed, event.id);
    default:
      return false;
  }
}

}  // namespace

LivePeak ReplayPlan::live_peak(std::span<const std::size_t> refused) const {
  std::vector<bool> slot_is_empty(slots, false);
  LivePeak peak;
  std::uint64_t bytes_live = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const ReplayOperation& operation = operations[i];
    if (operation.allocates) {
      const bool is_refused = !refused.empty() && refused.front() == i;
      slot_is_empty[operation.slot] = is_refused;
      if (is_refused)
        refused = refused.subspan(1);
      else
        bytes_live += operation.bytes;
    } else if (!slot_is_empty[operation.slot]) {
      bytes_live -= operation.bytes;
    }
    if (bytes_live > peak.bytes) peak = {bytes_live, i};
  }
  return peak;
}

std::vector<ReplayPlan> plan_replay(const Trace& trace) {
  const IdSet completed = completed_ids(trace);
  std::map<std::int32_t, Planner> planners;
  for (const TraceEvent& event : trace.events) {
    const bool allocates = event.op == TraceOp::init_alloc || event.op == TraceOp::alloc;
    if (!allocates && !frees(event, completed)) continue;
    Planner& planner = planners.try_emplace(event.device, trace.name, event.device).first->second;
    if (allocates)
      planner.allocate(event);
    else
      planner.free(event);
  }
  if (planners.empty())
    throw InvalidArgument(fmt::format(
        "{}: nothing to replay; accepted: a trace with at least one alloc", trace.name));

  std::vector<ReplayPlan> plans;
  plans.reserve(planners.size());
  for (auto& [device, planner] : planners) plans.push_back(planner.take());
  return plans;
}

}  // namespace berth::tool
