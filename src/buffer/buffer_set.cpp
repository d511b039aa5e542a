// SPDX-License-Identifier: Apache-2.0
#include "buffer/buffer_set.hpp"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "berth/error.hpp"

#include "base/check.hpp"
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
    keep_until_exit(std::shared_ptr<const void>(std::move(memory_)));
    return;
  }
  ready_ = {};  // may wait for the end of the filling
  set_->remove(*this);
}

void BufferState::fill(std::unique_ptr<DeviceBackend::Buffer> buffer, Transfer ready) noexcept {
  BERTH_CHECK(memory_->buffer == nullptr && (buffer != nullptr) == (bytes_ > 0));
  memory_->buffer = std::move(buffer);
  ready_ = std::move(ready);
  set_->count_created(device_);
}

DeviceWork& BufferState::work() const {
  return set_->work(device_, owner_);
}

void BufferState::require_open() const {
  set_->require_open();
}

/// The use of mapped memory by one operation. It ends before the transfer, so the set exists.
class BufferSet::MappedUse {
 public:
  explicit MappedUse(BufferSet& set) noexcept : set_(set) {}
  ~MappedUse() { end(); }
  MappedUse(const MappedUse&) = delete;
  MappedUse& operator=(const MappedUse&) = delete;

  /// Before end(), with the lock of the set.
  void add(HostMappingState& mapped) {
    BERTH_CHECK(!mapped.is_ending_);
    used_.push_back(&mapped);
    ++mapped.uses_;
  }
  void end() noexcept {
    if (!has_ended_.exchange(true)) set_.end_use(used_);
  }

 private:
  BufferSet& set_;
  std::vector<HostMappingState*> used_;
  std::atomic<bool> has_ended_ = false;
};

void BufferSet::require_here() const {
  origin_.require_here("a buffer of a backend");
}

void BufferSet::require_not_closed() const {
  if (!is_closed_) return;
  throw InvalidArgument("a buffer is used after the end of its Runtime; accepted: before");
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
  const MutexLock lock(work_mutex_);
  const auto found = work_.find(device);
  if (found != work_.end()) counted.staging_bytes = found->second->staging_bytes();
  return counted;
}

DeviceWork& BufferSet::work(Device device, const RegisteredBackend& owner) {
  const MutexLock lock(work_mutex_);
  const auto found = work_.find(device);
  if (found != work_.end()) return *found->second;
  return *work_.emplace(device, std::make_unique<DeviceWork>(owner)).first->second;
}

void BufferSet::wake_work() noexcept {
  const MutexLock lock(work_mutex_);
  for (const auto& [device, work] : work_) {
    work->files().wake();
    work->memory().wake();
  }
}

std::size_t BufferSet::trim() {
  require_open();
  std::vector<DeviceWork*> all;
  {
    const MutexLock lock(work_mutex_);
    for (const auto& [device, work] : work_) all.push_back(work.get());
  }
  // Without the lock, because a backend may take long to unmap memory.
  std::size_t bytes = 0;
  for (DeviceWork* const work : all) bytes += work->trim();
  return bytes;
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

void BufferSet::add(HostMappingState& mapped) {
  require_open();
  const MutexLock lock(mutex_);
  for (const HostMappingState* const other : mapped_) {
    if (!other->overlaps(*mapped.owner_.backend, mapped.memory())) continue;
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
  BERTH_CHECK(mapped.is_ending_ && mapped.uses_ == 0);
  const std::size_t erased = mapped_.erase(&mapped);
  BERTH_CHECK(erased == 1);
  unused_.notify_all();
}

bool BufferSet::begin_unmapping(HostMappingState& mapped) noexcept {
  const MutexLock lock(mutex_);
  while (mapped.is_ending_ && mapped_.contains(&mapped)) unused_.wait(mutex_);  // for close()
  if (!mapped_.contains(&mapped)) return false;
  ++transfers_;
  while (mapped.uses_ > 0) unused_.wait(mutex_);
  mapped.is_ending_ = true;
  return true;
}

HostMappingState* BufferSet::begin_unmapping_one() noexcept {
  const MutexLock lock(mutex_);
  for (HostMappingState* const mapped : mapped_) {
    if (mapped->is_ending_) continue;  // its owner unmaps it
    mapped->is_ending_ = true;
    return mapped;
  }
  return nullptr;
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

std::shared_ptr<BufferSet::MappedUse> BufferSet::find_mapped(const DeviceBackend& backend,
                                                             std::span<const std::byte> memory) {
  {
    const MutexLock lock(mutex_);
    if (mapped_.empty()) return nullptr;
  }
  auto use = std::make_shared<MappedUse>(*this);
  const auto is_touched = [&](const HostMappingState* mapped) {
    return mapped->overlaps(backend, memory);
  };
  const auto is_ending = [&](const HostMappingState* mapped) {
    return mapped->is_ending_ && is_touched(mapped);
  };
  const MutexLock lock(mutex_);
  // Its end is about to be complete: the backend must find no operation on the memory.
  while (std::ranges::any_of(mapped_, is_ending)) unused_.wait(mutex_);
  for (HostMappingState* const mapped : mapped_)
    if (is_touched(mapped)) use->add(*mapped);
  return use;
}

std::shared_ptr<const void> BufferSet::hold_mapped(const DeviceBackend& backend,
                                                   std::span<const std::byte> memory) {
  return find_mapped(backend, memory);
}

DeviceBackend::Done BufferSet::use_mapped(const DeviceBackend& backend,
                                          std::span<const std::byte> memory,
                                          DeviceBackend::Done done) {
  // If a backend drops the operation, the use ends before the operation.
  struct DoneWithUse {
    DeviceBackend::Done done;
    std::shared_ptr<MappedUse> use;

    void operator()(std::exception_ptr failure) const {
      use->end();
      done(std::move(failure));
    }
  };
  std::shared_ptr<MappedUse> use = find_mapped(backend, memory);
  if (use == nullptr) return done;
  return DoneWithUse{std::move(done), std::move(use)};
}

void BufferSet::end_use(const std::vector<HostMappingState*>& used) noexcept {
  const MutexLock lock(mutex_);
  for (HostMappingState* const mapped : used) {
    BERTH_CHECK(mapped->uses_ > 0 && !mapped->is_ending_);
    --mapped->uses_;
  }
  unused_.notify_all();
}

void BufferSet::close() noexcept {
  if (!is_here()) return;
  {
    const MutexLock lock(mutex_);
    wait_for_transfers();
    is_closed_ = true;
  }
  // One by one without the lock, because a backend and the report sink may wait for a thread that
  // destroys a buffer or a mapping at the same time.
  while (take_one() != nullptr) {
  }
  while (HostMappingState* const mapped = begin_unmapping_one()) {
    mapped->unmap();
    remove(*mapped);
  }
  {
    const MutexLock lock(mutex_);
    wait_for_transfers();  // which are ends of buffers and mappings
    BERTH_CHECK(live_.empty() && mapped_.empty());
  }
  notices_.finish();
  const MutexLock lock(work_mutex_);
  for (const auto& [device, work] : work_) work->finish();
}

}  // namespace berth
