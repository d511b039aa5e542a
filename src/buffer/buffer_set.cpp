// SPDX-License-Identifier: Apache-2.0
#include "buffer/buffer_set.hpp"

#include <algorithm>
#include <utility>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "buffer/host_mapping.hpp"

namespace berth {

BufferState::BufferState(std::shared_ptr<BufferSet> set, const RegisteredBackend& owner,
                         Device device, std::size_t bytes)
    : set_(std::move(set)), owner_(owner), device_(device), bytes_(bytes) {
  set_->add(*this);
}

BufferState::~BufferState() {
  if (!set_->is_here()) {
    keep_until_exit(std::shared_ptr<const void>(std::move(buffer_)));
    return;
  }
  ready_ = {};  // may wait for the end of the filling
  buffer_ = nullptr;
  set_->remove(*this);
}

void BufferState::fill(std::unique_ptr<DeviceBackend::Buffer> buffer, Transfer ready) noexcept {
  buffer_ = std::move(buffer);
  ready_ = std::move(ready);
  set_->count_created(device_);
}

void BufferState::require_open() const {
  set_->require_open();
}

void BufferSet::require_open() const {
  origin_.require_here("a buffer of a backend");
  const MutexLock lock(mutex_);
  if (!is_closed_) return;
  throw InvalidArgument("a buffer is used after the end of its Runtime; accepted: before");
}

void BufferSet::begin_transfer(bool has_task) {
  require_open();
  if (has_task) notices_.start();
  const MutexLock lock(mutex_);
  ++transfers_;
}

void BufferSet::end_transfer() noexcept {
  const MutexLock lock(mutex_);
  if (--transfers_ == 0) idle_.notify_all();
}

void BufferSet::report(const std::string& message) noexcept {
  if (sink_ == nullptr) return;
  try {
    sink_({Severity::error, message});
  } catch (...) {  // NOLINT(bugprone-empty-catch): a sink's exceptions are ignored
  }
}

void BufferSet::count_created(Device device) noexcept {
  const MutexLock lock(mutex_);
  ++counters_.find(device)->second.buffers_created;
}

void BufferSet::count_written(Device device, std::size_t bytes) {
  const MutexLock lock(mutex_);
  counters_[device].bytes_written += bytes;
}

void BufferSet::count_read(Device device, std::size_t bytes) {
  const MutexLock lock(mutex_);
  counters_[device].bytes_read += bytes;
}

void BufferSet::count_copied(Device device, std::size_t bytes) {
  const MutexLock lock(mutex_);
  counters_[device].bytes_copied += bytes;
}

BufferCounters BufferSet::counters(Device device) const {
  const MutexLock lock(mutex_);
  const auto found = counters_.find(device);
  return found == counters_.end() ? BufferCounters{} : found->second;
}

void BufferSet::add(BufferState& state) {
  const MutexLock lock(mutex_);
  BufferCounters& counters = counters_[state.device()];
  live_.insert(&state);
  ++counters.buffers_live;
  counters.bytes_live += state.bytes();
  counters.bytes_live_peak = std::max(counters.bytes_live_peak, counters.bytes_live);
}

void BufferSet::remove(BufferState& state) noexcept {
  const MutexLock lock(mutex_);
  live_.erase(&state);
  BufferCounters& counters = counters_.find(state.device())->second;
  --counters.buffers_live;
  counters.bytes_live -= state.bytes();
}

void BufferSet::add(HostMappingState& mapped) {
  require_open();
  const MutexLock lock(mutex_);
  for (const HostMappingState* const other : mapped_) {
    if (!mapped.overlaps(*other)) continue;
    throw InvalidArgument(format_text(
        "{} B of the host at {} overlap {} B at {}, which are mapped for {}; accepted: memory that "
        "is not mapped",
        mapped.memory().size(), static_cast<const void*>(mapped.memory().data()),
        other->memory().size(), static_cast<const void*>(other->memory().data()),
        other->owner_.type.name()));
  }
  mapped_.insert(&mapped);
}

bool BufferSet::remove(HostMappingState& mapped) noexcept {
  const MutexLock lock(mutex_);
  return mapped_.erase(&mapped) != 0;
}

void BufferSet::close() noexcept {
  if (!is_here()) return;
  std::unordered_set<BufferState*> left;
  std::unordered_set<HostMappingState*> mapped;
  {
    const MutexLock lock(mutex_);
    while (transfers_ > 0) idle_.wait(mutex_);
    is_closed_ = true;
    left = live_;
    mapped.swap(mapped_);
  }
  for (BufferState* const state : left) state->buffer_ = nullptr;
  for (HostMappingState* const memory : mapped) memory->unmap();
  notices_.finish();
  work_.finish();
}

}  // namespace berth
