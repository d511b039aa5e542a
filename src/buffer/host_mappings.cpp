// SPDX-License-Identifier: Apache-2.0
#include "buffer/host_mappings.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "buffer/host_mapping.hpp"

namespace berth {

/// The use of mapped memory by one operation. It ends before the transfer, so its owner exists.
class HostMappings::MappedUse {
 public:
  explicit MappedUse(HostMappings& all) noexcept : all_(all) {}
  ~MappedUse() { end(); }
  MappedUse(const MappedUse&) = delete;
  MappedUse& operator=(const MappedUse&) = delete;

  /// Before end(), with the lock of its owner.
  void add(HostMappingState& mapped) {
    BERTH_CHECK(!mapped.is_ending_);
    used_.push_back(&mapped);
    ++mapped.uses_;
  }
  void end() noexcept {
    if (!has_ended_.exchange(true)) all_.end_use(used_);
  }

 private:
  HostMappings& all_;
  std::vector<HostMappingState*> used_;
  std::atomic<bool> has_ended_ = false;
};

void HostMappings::add(HostMappingState& mapped) {
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

void HostMappings::remove(HostMappingState& mapped) noexcept {
  const MutexLock lock(mutex_);
  BERTH_CHECK(mapped.is_ending_ && mapped.uses_ == 0);
  const std::size_t erased = mapped_.erase(&mapped);
  BERTH_CHECK(erased == 1);
  unused_.notify_all();
}

void HostMappings::end_end() noexcept {
  const MutexLock lock(mutex_);
  BERTH_CHECK(ends_ > 0);
  if (--ends_ == 0) unused_.notify_all();
}

bool HostMappings::begin_end(HostMappingState& mapped) noexcept {
  const MutexLock lock(mutex_);
  // close() may end it meanwhile.
  while (mapped_.contains(&mapped) && (mapped.is_ending_ || mapped.uses_ > 0)) unused_.wait(mutex_);
  if (!mapped_.contains(&mapped)) return false;
  mapped.is_ending_ = true;
  ++ends_;
  return true;
}

HostMappingState* HostMappings::take_one() noexcept {
  const MutexLock lock(mutex_);
  for (HostMappingState* const mapped : mapped_) {
    if (mapped->is_ending_) continue;  // its owner unmaps it
    BERTH_CHECK(mapped->uses_ == 0);   // all transfers are over
    mapped->is_ending_ = true;
    return mapped;
  }
  return nullptr;
}

std::shared_ptr<HostMappings::MappedUse> HostMappings::find_use(const DeviceBackend& backend,
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

std::shared_ptr<const void> HostMappings::hold(const DeviceBackend& backend,
                                               std::span<const std::byte> memory) {
  return find_use(backend, memory);
}

DeviceBackend::Done HostMappings::use(const DeviceBackend& backend,
                                      std::span<const std::byte> memory, DeviceBackend::Done done) {
  // If a backend drops the operation, the use ends before the operation.
  struct DoneWithUse {
    DeviceBackend::Done done;
    std::shared_ptr<MappedUse> use;

    void operator()(std::exception_ptr failure) const {
      use->end();
      done(std::move(failure));
    }
  };
  std::shared_ptr<MappedUse> use = find_use(backend, memory);
  if (use == nullptr) return done;
  return DoneWithUse{std::move(done), std::move(use)};
}

void HostMappings::end_use(const std::vector<HostMappingState*>& used) noexcept {
  const MutexLock lock(mutex_);
  for (HostMappingState* const mapped : used) {
    BERTH_CHECK(mapped->uses_ > 0 && !mapped->is_ending_);
    --mapped->uses_;
  }
  unused_.notify_all();
}

void HostMappings::close() noexcept {
  // One by one without the lock, because a backend and the report sink may wait for a thread that
  // destroys a mapping at the same time.
  while (HostMappingState* const mapped = take_one()) {
    mapped->unmap();
    remove(*mapped);
  }
  const MutexLock lock(mutex_);
  while (ends_ > 0) unused_.wait(mutex_);
  BERTH_CHECK(mapped_.empty());
}

}  // namespace berth
