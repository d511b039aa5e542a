// SPDX-License-Identifier: Apache-2.0
#include "workloads/replay.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace berth::bench {
namespace {

namespace fs = std::filesystem;

/// Provides unused numbers, the last returned first.
class Slots {
 public:
  std::size_t take() {
    if (free_.empty()) return count_++;
    const std::size_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(std::size_t slot) { free_.push_back(slot); }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  std::vector<std::size_t> free_;
  std::size_t count_ = 0;
};

bool allocates(const TraceEvent& event) {
  return (event.op == TraceOp::init_alloc || event.op == TraceOp::alloc) && event.bytes > 0;
}

bool frees(const TraceEvent& event) {
  return event.op == TraceOp::free || event.op == TraceOp::free_requested;
}

}  // namespace

std::string trace_name(const Trace& trace) {
  std::string name = fs::path(trace.name).filename().string();
  for (const std::string_view ending : {".gz", ".csv"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name;
}

ReplayPlan::ReplayPlan(const Trace& trace) : name(trace_name(trace)) {
  Slots free_slots;
  std::size_t bytes_live = 0;
  std::unordered_map<std::int64_t, Operation> live;
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> stream_numbers;
  for (const TraceEvent& event : trace.events) {
    if (allocates(event)) {
      const std::size_t stream =
          stream_numbers.try_emplace({event.device, event.stream}, stream_numbers.size())
              .first->second;
      const Operation operation{free_slots.take(), static_cast<std::size_t>(event.bytes), stream};
      live.emplace(event.id, operation);
      operations.push_back(operation);
      bytes_live += operation.bytes;
      bytes_live_peak = std::max(bytes_live_peak, bytes_live);
    } else if (const auto block = frees(event) ? live.find(event.id) : live.end();
               block != live.end()) {
      operations.push_back({block->second.slot, 0, block->second.stream});
      free_slots.give_back(block->second.slot);
      bytes_live -= block->second.bytes;
      live.erase(block);
    }
  }
  std::vector<Operation> left;
  for (const auto& [id, operation] : live) left.push_back({operation.slot, 0, operation.stream});
  std::ranges::sort(left, {}, &Operation::slot);
  operations.insert(operations.end(), left.begin(), left.end());
  slots = free_slots.count();
  streams = stream_numbers.size();
}

std::vector<ReplayPlan> read_replay_plans(const std::string& folders) {
  std::vector<ReplayPlan> plans;
  std::istringstream list(folders);
  for (std::string folder; std::getline(list, folder, ':');) {
    if (!fs::is_directory(folder)) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string path = entry.path().string();
      if (path.ends_with(".csv") || path.ends_with(".csv.gz")) {
        plans.emplace_back(read_trace(path));
      }
    }
  }
  std::ranges::sort(plans, {}, &ReplayPlan::name);
  return plans;
}

std::vector<ReplayPlan> read_replay_plans() {
  const char* named = std::getenv("BERTH_BENCH_TRACES");
  return read_replay_plans(named != nullptr ? named : "bench/traces");
}

}  // namespace berth::bench
