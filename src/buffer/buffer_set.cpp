// SPDX-License-Identifier: Apache-2.0
#include "buffer/buffer_set.hpp"

#include <algorithm>
#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "buffer/host_mapping.hpp"

namespace berth {
namespace {

[[noreturn]] void refuse_closed() {
  throw InvalidArgument("a buffer is used after the end of its Runtime; accepted: before");
}

}  // namespace

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
  set_->remove(*this);
}

void BufferState::fill(std::shared_ptr<DeviceBackend::Buffer> buffer, Transfer ready) noexcept {
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
  if (is_closed_) refuse_closed();
}

void BufferSet::begin_transfer(bool has_task) {
  require_open();
  if (has_task) notices_.start();
  const MutexLock lock(mutex_);
  if (is_closed_) refuse_closed();  // meanwhile
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

// The memory is freed without the lock, because a backend may call back. This counts as a transfer,
// so that close() waits for it: the backend may be destroyed after close().
void BufferSet::remove(BufferState& state) noexcept {
  std::shared_ptr<DeviceBackend::Buffer> buffer;
  {
    const MutexLock lock(mutex_);
    live_.erase(&state);
    buffer = std::move(state.buffer_);
    BERTH_CHECK(buffer == nullptr || !is_closed_);  // close() has freed all
    ++transfers_;
  }
  buffer = nullptr;
  {
    const MutexLock lock(mutex_);
    BufferCounters& counters = counters_.find(state.device())->second;
    --counters.buffers_live;
    counters.bytes_live -= state.bytes();
  }
  end_transfer();
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

void BufferSet::remove(HostMappingState& mapped) noexcept {
  const MutexLock lock(mutex_);
  mapped_.erase(&mapped);
}

bool BufferSet::begin_unmapping(HostMappingState& mapped) noexcept {
  const MutexLock lock(mutex_);
  if (!mapped_.contains(&mapped)) return false;
  ++transfers_;
  return true;
}

void BufferSet::close() noexcept {
  if (!is_here()) return;
  {
    // With the lock: another thread may destroy a buffer or a mapping at the same time. No transfer
    // is pending, so the backend has nothing to call back for.
    const MutexLock lock(mutex_);
    while (transfers_ > 0) idle_.wait(mutex_);
    is_closed_ = true;
    for (BufferState* const state : live_) state->buffer_ = nullptr;
    for (HostMappingState* const memory : mapped_) memory->unmap();
    mapped_.clear();
  }
  notices_.finish();
  work_.finish();
}

}  // namespace berth
