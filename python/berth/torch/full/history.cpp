// SPDX-License-Identifier: Apache-2.0
#include "history.hpp"

#include <algorithm>
#include <utility>

namespace berth::torch {

void History::enable(const Options& options) {
  Options checked = options;
  checked.skipped.clear();
  for (const std::string& name : options.skipped) {
    c10::CachingDeviceAllocator::parseTraceEntryAction(name);  // throws
    checked.skipped.push_back(name);
  }
  const std::lock_guard lock(mutex_);
  options_ = std::move(checked);
  is_enabled_ = true;
}

void History::disable() {
  const std::lock_guard lock(mutex_);
  is_enabled_ = false;
  live_.clear();
}

void History::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

History::Context History::context(RecordContext level) {
  CreateContextFn create = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (options_.when >= level) create = options_.context;
  }
  return create == nullptr ? nullptr : create();
}

void History::add(TraceEntry::Action action, int device, std::size_t address, std::size_t bytes,
                  CUstream_st* stream, const Context& context) {
  const bool is_skipped = std::any_of(
      options_.skipped.begin(), options_.skipped.end(), [action](const std::string& name) {
        return c10::CachingDeviceAllocator::parseTraceEntryAction(name) == action;
      });
  if (is_skipped) return;
  std::deque<TraceEntry>& entries = entries_[device];
  entries.emplace_back(action, static_cast<c10::DeviceIndex>(device), address, bytes, stream,
                       c10::MempoolId_t{}, c10::getApproximateTime(), context);
  while (entries.size() > options_.entries_max) entries.pop_front();
}

void History::allocated(void* data, std::size_t bytes, int device, CUstream_st* stream) {
  const Context state = context(RecordContext::STATE);
  const std::lock_guard lock(mutex_);
  if (!is_enabled()) return;
  live_[data] = {bytes, device, stream, state};
  add(TraceEntry::ALLOC, device, reinterpret_cast<std::size_t>(data), bytes, stream,
      options_.when >= RecordContext::ALLOC ? state : nullptr);
}

void History::freed(void* data) {
  const Context where = context(RecordContext::ALL);
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(data);
  if (found == live_.end()) return;
  const Live block = std::move(found->second);
  live_.erase(found);
  for (const auto action : {TraceEntry::FREE_REQUESTED, TraceEntry::FREE_COMPLETED})
    add(action, block.device, reinterpret_cast<std::size_t>(data), block.bytes, block.stream,
        where);
}

void History::out_of_memory(std::size_t bytes, int device, std::size_t bytes_free) {
  const Context where = context(RecordContext::ALLOC);
  const std::lock_guard lock(mutex_);
  add(TraceEntry::OOM, device, bytes_free, bytes, nullptr, where);
}

std::vector<std::vector<TraceEntry>> History::entries(int devices) {
  std::vector<std::vector<TraceEntry>> all(static_cast<std::size_t>(devices));
  const std::lock_guard lock(mutex_);
  const auto time_of = clock_.makeConverter();
  for (const auto& [device, entries] : entries_) {
    if (device >= devices) continue;
    auto& copy = all[static_cast<std::size_t>(device)];
    copy.assign(entries.begin(), entries.end());
    for (TraceEntry& entry : copy) entry.time_.t_ = time_of(entry.time_.approx_t_);
  }
  return all;
}

History::Context History::context_of(const void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(data);
  return found == live_.end() ? nullptr : found->second.context;
}

}  // namespace berth::torch
