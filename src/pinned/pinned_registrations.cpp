// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, cuMemHostRegister, cuMemHostUnregister.
#include "pinned/pinned_registrations.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "device/observe_devices.hpp"
#include "pinned/pinned_segments.hpp"
#include "stream/capture.hpp"
#include "stream/mark_or_wait.hpp"
#include "stream/unchecked.hpp"
#include "stream/wait.hpp"

namespace berth {
namespace {

constexpr const char* kWaiting = "pinned: waiting for work on registered memory";

std::uintptr_t start_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

std::string describe_range(std::uintptr_t start, std::size_t bytes) {
  return format_text("{} at {:#x}", format_bytes(bytes), start);
}

void check_range(const void* data, std::size_t bytes) {
  if (data == nullptr) throw InvalidArgument("pinned: null cannot be registered");
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
    : registry_(registry), events_(events) {
  add_observer_of_all(registry_, *this);
}

PinnedRegistrations::~PinnedRegistrations() {
  if (!origin_.is_here()) return;
  remove_observer_of_all(registry_, *this);
  for (;;) {
    void* data = nullptr;
    {
      const MutexLock lock(mutex_);
      BERTH_CHECK(!entries_.empty() || bytes_ == 0);
      if (entries_.empty()) return;
      const auto& [start, entry] = *entries_.begin();
      data = reinterpret_cast<void*>(start);
      driver().report(Severity::warning, [address = start, bytes = entry.bytes] {
        return format_text("pinned: {} was still registered when the allocator was destroyed",
                           describe_range(address, bytes));
      });
    }
    try {
      remove(data);
    } catch (const std::exception& error) {  // an Error or std::bad_alloc
      driver().report(Severity::error, "pinned: unregistering in a destructor", error);
      drop(start_of(data));
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
    const RelaxedCapture relaxed(driver());
    make_host_progress(registry_);
    result = driver().try_mem_host_register(data, bytes, unsigned{CU_MEMHOSTREGISTER_PORTABLE});
  } catch (...) {
    drop(start_of(data));
    throw;
  }
  if (result != CUDA_SUCCESS) {
    drop(start_of(data));
    refuse(driver(), result, start_of(data), bytes);
  }
  const MutexLock lock(mutex_);
  Entry& entry = entries_.at(start_of(data));
  BERTH_CHECK(entry.state == State::beginning && entry.bytes == bytes);
  entry.state = State::live;
  bytes_ += bytes;
}

void PinnedRegistrations::claim(std::uintptr_t start, std::size_t bytes, DeviceContext& context) {
  const MutexLock lock(mutex_);
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
  const bool is_new = entries_.emplace(start, Entry{.bytes = bytes, .context = &context}).second;
  BERTH_CHECK(is_new);
}

void PinnedRegistrations::drop(std::uintptr_t start) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(start);
  BERTH_CHECK(found != entries_.end());
  if (found->second.state != State::beginning) bytes_ -= found->second.bytes;
  entries_.erase(found);
}

void PinnedRegistrations::remove(void* data) {
  if (!origin_.is_here()) return;
  Entry* entry = nullptr;
  {
    const MutexLock lock(mutex_);
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
    wait_for_uses(*entry);
    unpin(*entry->context, data);
  } catch (...) {
    const MutexLock lock(mutex_);
    entry->state = State::live;
    throw;
  }
  const MutexLock lock(mutex_);
  BERTH_CHECK(entry->state == State::ending && entry->uses.empty() && bytes_ >= entry->bytes);
  bytes_ -= entry->bytes;
  entries_.erase(start_of(data));
}

void PinnedRegistrations::wait_for_uses(Entry& entry) {
  while (mark_last_use(entry)) {
    End end;
    {
      const MutexLock lock(mutex_);
      if (!entry.uses.empty()) end = entry.uses.back().end;
    }
    if (end == nullptr) continue;
    try {
      sync_unchecked(end->ref());
    } catch (const std::exception& error) {  // work that failed is over
      driver().report(Severity::warning, kWaiting, error);
    }
    const MutexLock lock(mutex_);
    // A stream that has ended meanwhile may have left a later end, or none.
    if (!entry.uses.empty() && entry.uses.back().end == end) entry.uses.pop_back();
  }
}

bool PinnedRegistrations::mark_last_use(Entry& entry) {
  std::optional<StreamRef> named;
  {
    const MutexLock lock(mutex_);
    if (entry.uses.empty()) return false;
    Use& last = entry.uses.back();
    if (last.end != nullptr) return true;
    last.is_handle_used = true;
    named = last.stream;
  }
  End end = end_of(*named);
  const MutexLock lock(mutex_);
  Use& last = entry.uses.back();
  BERTH_CHECK(last.is_handle_used && last.stream == *named);
  last.is_handle_used = false;
  last.end = std::move(end);
  if (last.end == nullptr) entry.uses.pop_back();
  handle_use_ended_.notify_all();
  return true;
}

PinnedRegistrations::End PinnedRegistrations::end_of(StreamRef stream) const noexcept {
  WorkEnd end = mark_or_wait(stream, events_.of(stream.context()), {});  // the caller waits anyway
  if (end.state == WorkEnd::State::captured) {
    driver().report(Severity::warning,
                    "pinned: registered memory ends while a stream that uses it is captured, whose "
                    "work cannot be waited for");
  } else if (end.state == WorkEnd::State::unknown) {
    driver().report(Severity::warning,
                    "pinned: registered memory ends while a stream uses it of which the driver "
                    "accepts no call");
  }
  return std::move(end.event);
}

void PinnedRegistrations::unpin(DeviceContext& context, void* data) const {
  const ContextScope scope(context);
  const RelaxedCapture relaxed(driver());
  make_host_progress(registry_);
  const CUresult result = driver().try_mem_host_unregister(data);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) return;  // Driver's exit rule
  driver().raise(DriverCall::mem_host_unregister, result);
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
  const MutexLock lock(mutex_);
  const auto found = const_cast<PinnedRegistrations*>(this)->around(data);
  if (found == entries_.end()) return std::nullopt;
  return Range{reinterpret_cast<void*>(found->first), found->second.bytes};
}

void PinnedRegistrations::add_use(Entry& entry, Use use) {
  const auto same = std::ranges::find_if(entry.uses, [&](const Use& other) {
    return !other.is_retired && other.stream == use.stream;
  });
  if (same == entry.uses.end()) {
    entry.uses.push_back(std::move(use));
  } else if (same->end != nullptr) {  // otherwise all of the stream's work counts already
    same->end = std::move(use.end);
  }
}

bool PinnedRegistrations::record_stream(const void* data, StreamRef stream) {
  if (bytes_ == 0 || !origin_.is_here()) return false;
  const MutexLock lock(mutex_);
  const auto found = around(data);
  if (found == entries_.end()) return false;
  add_use(found->second, {stream, nullptr});
  return true;
}

bool PinnedRegistrations::record_use(const void* data, StreamRef stream) {
  if (!find(data)) return false;
  // Of two marks of one stream, the later one counts, so marks are added in the order of recording.
  const MutexLock in_order(record_mutex_);
  End end = is_capturing(stream) ? nullptr : record(stream);
  const MutexLock lock(mutex_);
  const auto found = around(data);
  if (found == entries_.end()) return false;
  add_use(found->second, {stream, std::move(end)});
  return true;
}

void PinnedRegistrations::retire_stream(StreamRef stream) noexcept {
  if (bytes_ == 0 || !origin_.is_here()) return;
  const auto for_each_use = [&](const auto& visit) BERTH_UNDER_LOCK {
    for (auto& [start, entry] : entries_) {
      for (Use& use : entry.uses) {
        if (use.stream == stream && !use.is_retired) visit(use);
      }
    }
  };
  bool is_used = false;
  {
    const MutexLock lock(mutex_);
    for_each_use([&](Use& use) {
      use.is_retired = use.end != nullptr;
      is_used = is_used || !use.is_retired;
    });
  }
  if (!is_used) return;
  const WorkEnd end = mark_or_wait(stream, events_.of(stream.context()), "pinned");
  {
    const MutexLock lock(mutex_);
    const auto is_handle_used = [&]() BERTH_UNDER_LOCK {
      bool is_any_used = false;
      for_each_use([&](const Use& use) { is_any_used = is_any_used || use.is_handle_used; });
      return is_any_used;
    };
    while (is_handle_used()) handle_use_ended_.wait(mutex_);
    for_each_use([&](Use& use) {
      use.end = end.event;
      use.is_retired = true;
    });
    for (auto& [start, entry] : entries_) {
      std::erase_if(entry.uses,
                    [](const Use& use) { return use.is_retired && use.end == nullptr; });
    }
  }
  if (end.state == WorkEnd::State::captured) {
    driver().report(Severity::warning,
                    "pinned: a stream that uses registered memory is destroyed during a capture, "
                    "so the completion of its work is unknown");
  } else if (end.state == WorkEnd::State::unknown) {
    driver().report(Severity::warning,
                    "pinned: a stream that uses registered memory ends, and the driver accepts no "
                    "call for it, so the completion of its work is unknown");
  }
}

PinnedRegistrations::End PinnedRegistrations::record(StreamRef stream) const {
  auto event = std::make_shared<EventLease>(events_.of(stream.context()).acquire());
  record_unchecked(*event, stream);
  return event;
}

}  // namespace berth
