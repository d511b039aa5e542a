// SPDX-License-Identifier: Apache-2.0
#include "buffer/buffer_set.hpp"

#include <algorithm>
#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"

namespace berth {

void BufferSet::require_here() const {
  origin_.require_here("a buffer of a backend");
}

void BufferSet::require_not_closed() const {
  if (!is_closed_) return;
  throw InvalidArgument("a buffer is used after its Runtime was destroyed");
}

void BufferSet::require_open() const {
  require_here();
  const MutexLock lock(mutex_);
  require_not_closed();
}

void BufferSet::begin_transfer(bool has_notice) {
  if (has_notice) {
    require_open();
    notices_.start();
  }
  require_here();
  const MutexLock lock(mutex_);
  require_not_closed();
  ++transfers_;
}

void BufferSet::end_transfer() noexcept {
  const MutexLock lock(mutex_);
  forget_transfer();
}

void BufferSet::forget_transfer() noexcept {
  BERTH_CHECK(transfers_ > 0);
  if (--transfers_ == 0) idle_.notify_all();
}

void BufferSet::count_created(Device device) noexcept {
  const MutexLock lock(mutex_);
  const auto counters = counters_.find(device);
  BERTH_CHECK(counters != counters_.end());  // the buffer is live
  ++counters->second.buffers_created;
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
  BufferCounters counted;
  {
    const MutexLock lock(mutex_);
    const auto found = counters_.find(device);
    if (found != counters_.end()) counted = found->second;
  }
  counted.staging_bytes = works_.staging_bytes(device);
  return counted;
}

void BufferSet::add(BufferState& state) {
  require_here();
  const MutexLock lock(mutex_);
  require_not_closed();
  BufferCounters& counters = counters_[state.device()];
  live_.insert(&state);
  ++counters.buffers_live;
  counters.bytes_live += state.bytes();
  counters.bytes_live_peak = std::max(counters.bytes_live_peak, counters.bytes_live);
}

// The memory is freed without the lock, because a backend may call back. This counts as a transfer,
// so that close() waits for it: the backend may be destroyed after close().
void BufferSet::remove(BufferState& state) noexcept {
  std::shared_ptr<BufferState::Memory> memory;
  {
    const MutexLock lock(mutex_);
    const std::size_t erased = live_.erase(&state);
    BERTH_CHECK(erased == 1 || is_closed_);  // close() has taken its memory
    memory = std::move(state.memory_);
    ++transfers_;
  }
  memory = nullptr;
  const MutexLock lock(mutex_);
  BufferCounters& counters = counters_.find(state.device())->second;
  BERTH_CHECK(counters.buffers_live > 0 && counters.bytes_live >= state.bytes());
  --counters.buffers_live;
  counters.bytes_live -= state.bytes();
  forget_transfer();
}

std::shared_ptr<BufferState::Memory> BufferSet::take_one() noexcept {
  const MutexLock lock(mutex_);
  while (!live_.empty()) {
    BufferState* const state = *live_.begin();
    live_.erase(live_.begin());
    if (state->memory_ != nullptr) return std::move(state->memory_);
  }
  return nullptr;
}

void BufferSet::wait_for_transfers() noexcept {
  while (transfers_ > 0) idle_.wait(mutex_);
}

void BufferSet::close() noexcept {
  if (!is_here()) return;
  {
    const MutexLock lock(mutex_);
    wait_for_transfers();
    is_closed_ = true;
  }
  // One by one without the lock, because a backend and the report sink may wait for a thread that
  // destroys a buffer at the same time.
  while (take_one() != nullptr) {
  }
  mappings_.close();
  {
    const MutexLock lock(mutex_);
    wait_for_transfers();  // which are ends of buffers
    BERTH_CHECK(live_.empty());
  }
  notices_.finish();
  works_.finish();
}

}  // namespace berth
