// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, cuMemHostRegister, cuMemHostUnregister.
#include "pinned/pinned_registrations.hpp"

#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "pinned/pinned_segments.hpp"
#include "stream/capture.hpp"
#include "stream/wait.hpp"

namespace berth {
namespace {

std::uintptr_t start_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

std::string describe_range(std::uintptr_t start, std::size_t bytes) {
  return format_text("{} at {:#x}", format_bytes(bytes), start);
}

void check_range(const void* data, std::size_t bytes) {
  if (data == nullptr)
    throw InvalidArgument(
        "pinned: null cannot be registered; accepted: the address of writable memory of this "
        "process");
  if (bytes > std::numeric_limits<std::uintptr_t>::max() - start_of(data)) {
    throw InvalidArgument(format_text("pinned: {} cannot be registered: the range wraps around",
                                      describe_range(start_of(data), bytes)));
  }
  if (bytes >= PinnedSegments::kRegistrationBytesMax) {
    throw InvalidArgument(
        format_text("pinned: {} cannot be registered in one piece; accepted: less than {}",
                    describe_range(start_of(data), bytes),
                    format_bytes(PinnedSegments::kRegistrationBytesMax)));
  }
}

[[noreturn]] void refuse(const Driver& driver, CUresult result, std::uintptr_t start,
                         std::size_t bytes) {
  const std::string range = describe_range(start, bytes);
  switch (result) {
    case CUDA_ERROR_INVALID_VALUE:
      throw InvalidArgument(format_text(
          "pinned: {} cannot be registered: it is not entirely writable memory of this process: "
          "{}",
          range, driver.describe(result)));
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
      throw InvalidArgument(format_text(
          "pinned: {} cannot be registered: some of it is pinned already, by berth or by "
          "another library",
          range));
    case CUDA_ERROR_OUT_OF_MEMORY:
      throw OutOfMemory(
          format_text("pinned: {} could not be registered: {}", range, driver.describe(result)),
          result);
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED:
      throw NotSupported(
          format_text("pinned: {} cannot be registered: {}", range, driver.describe(result)));
    default:
      driver.raise(DriverCall::mem_host_register, result);
  }
}

}  // namespace

PinnedRegistrations::PinnedRegistrations(const DeviceRegistry& registry,
                                         const DeviceEventPools& events)
    : registry_(registry),
      driver_(events.driver()),
      uses_(events, "pinned", "memory may be unpinned before that work is over") {}

PinnedRegistrations::~PinnedRegistrations() {
  if (!origin_.is_here()) return;
  for (;;) {
    std::uintptr_t start = 0;
    std::size_t bytes = 0;
    {
      const MutexLock lock(uses_.mutex);
      BERTH_CHECK(!entries_.empty() || bytes_ == 0);
      if (entries_.empty()) return;
      start = entries_.begin()->first;
      bytes = entries_.begin()->second.bytes;
    }
    driver_.report(Severity::warning, [&] {
      return format_text("pinned: {} was still registered when the allocator was destroyed",
                         describe_range(start, bytes));
    });
    try {
      remove(reinterpret_cast<void*>(start));
    } catch (const std::exception& error) {  // an Error or std::bad_alloc
      driver_.report(Severity::error, "pinned: unregistering in a destructor", error);
      drop(start);
    }
  }
}

void PinnedRegistrations::add(void* data, std::size_t bytes) {
  check_range(data, bytes);
  DeviceContext& context = registry_.context(Device::cuda());
  claim(start_of(data), bytes, context);
  CUresult result = CUDA_SUCCESS;
  try {
    const ContextScope scope(context);
    const RelaxedCapture relaxed(driver_);
    make_host_progress(registry_);
    result = driver_.try_mem_host_register(data, bytes, unsigned{CU_MEMHOSTREGISTER_PORTABLE});
  } catch (...) {
    drop(start_of(data));
    throw;
  }
  if (result != CUDA_SUCCESS) {
    drop(start_of(data));
    refuse(driver_, result, start_of(data), bytes);
  }
  const MutexLock lock(uses_.mutex);
  Entry& entry = entries_.at(start_of(data));
  BERTH_CHECK(entry.state == State::beginning && entry.bytes == bytes);
  entry.state = State::live;
  bytes_ += bytes;
}

void PinnedRegistrations::claim(std::uintptr_t start, std::size_t bytes, DeviceContext& context) {
  const MutexLock lock(uses_.mutex);
  const auto after = entries_.lower_bound(start);
  const auto overlaps = [&](const Entries::value_type& entry) {
    return entry.first < start + bytes && start < entry.first + entry.second.bytes;
  };
  for (const auto& near : {after, after == entries_.begin() ? after : std::prev(after)}) {
    if (near == entries_.end() || !overlaps(*near)) continue;
    throw InvalidArgument(
        format_text("pinned: {} cannot be registered: it overlaps {}, which is registered",
                    describe_range(start, bytes), describe_range(near->first, near->second.bytes)));
  }
  const bool is_new = entries_.emplace(start, Entry{bytes, &context, uses_.new_memory()}).second;
  BERTH_CHECK(is_new);
}

void PinnedRegistrations::drop(std::uintptr_t start) {
  const MutexLock lock(uses_.mutex);
  const auto found = entries_.find(start);
  BERTH_CHECK(found != entries_.end());
  if (found->second.state != State::beginning) bytes_ -= found->second.bytes;
  entries_.erase(found);
}

void PinnedRegistrations::remove(void* data) {
  if (!origin_.is_here()) return;
  Entry* entry = nullptr;
  {
    const MutexLock lock(uses_.mutex);
    const auto found = around(data);
    if (found == entries_.end() || found->first != start_of(data)) {
      throw InvalidArgument(format_text(
          "pinned: no registration starts at {}{}; accepted: the address that was registered", data,
          found == entries_.end()
              ? ""
              : format_text(", which is inside the one that starts at {:#x}", found->first)));
    }
    entry = &found->second;
    entry->state = State::ending;  // no other call finds the entry
  }
  try {
    uses_.wait_for_all(entry->uses);
    unpin(*entry->context, data);
  } catch (...) {
    const MutexLock lock(uses_.mutex);
    entry->state = State::live;
    throw;
  }
  const MutexLock lock(uses_.mutex);
  BERTH_CHECK(entry->state == State::ending && !uses_.has_uses(entry->uses) &&
              bytes_ >= entry->bytes);
  bytes_ -= entry->bytes;
  entries_.erase(start_of(data));
}

void PinnedRegistrations::unpin(DeviceContext& context, void* data) const {
  const ContextScope scope(context);
  const RelaxedCapture relaxed(driver_);
  make_host_progress(registry_);
  const CUresult result = driver_.try_mem_host_unregister(data);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) return;  // Driver's exit rule
  driver_.raise(DriverCall::mem_host_unregister, result);
}

PinnedRegistrations::Entries::iterator PinnedRegistrations::around(const void* data) {
  const std::uintptr_t address = start_of(data);
  auto found = entries_.upper_bound(address);
  if (found == entries_.begin()) return entries_.end();
  --found;
  const bool covers = address - found->first < found->second.bytes;
  return covers && found->second.state == State::live ? found : entries_.end();
}

std::optional<PinnedRegistrations::Range> PinnedRegistrations::find(const void* data) const {
  if (bytes_ == 0 || !origin_.is_here()) return std::nullopt;
  const MutexLock lock(uses_.mutex);
  const auto found = const_cast<PinnedRegistrations*>(this)->around(data);
  if (found == entries_.end()) return std::nullopt;
  return Range{reinterpret_cast<void*>(found->first), found->second.bytes};
}

bool PinnedRegistrations::record_stream(const void* data, StreamRef stream) {
  return bytes_ != 0 && origin_.is_here() && add_use(data, stream, {});
}

bool PinnedRegistrations::record_use(const void* data, StreamRef stream) {
  return find(data) && add_use(data, stream, uses_.record(stream));
}

bool PinnedRegistrations::add_use(const void* data, StreamRef stream, RecordedEvent mark) {
  const MutexLock lock(uses_.mutex);
  const auto found = around(data);
  if (found == entries_.end()) return false;
  uses_.add(found->second.uses, stream, mark);
  return true;
}

}  // namespace berth
