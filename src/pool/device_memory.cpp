// SPDX-License-Identifier: Apache-2.0
#include "pool/device_memory.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "berth/bytes.hpp"

#include "base/check.hpp"
#include "base/check_choice.hpp"
#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/quoted.hpp"
#include "base/text_list.hpp"
#include "memory/source/mapping_notices.hpp"
#include "stream/wait.hpp"

namespace berth {
namespace {

/// The interval of the checks: unused memory stays at most a quarter longer than requested.
constexpr int kReleasesInAge = 4;

void check_name(std::string_view name) {
  const bool printable = std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
  if (name.empty() || name.size() > 64 || !printable) {
    throw InvalidArgument(format_text(
        "a memory pool cannot be named {}; accepted: 1 to 64 printable ASCII characters",
        quoted(name)));
  }
}

/// The memory of the device, less the headroom for other libraries and processes.
MemoryBudget::Limits device_limits(const DeviceAllocatorOptions& options,
                                   const MemoryLimits& limits, std::size_t device_bytes) {
  MemoryBudget::Limits bytes = in_bytes(limits, device_bytes);
  const std::size_t headroom = options.headroom_bytes.bytes(device_bytes);
  if (headroom > 0) bytes.capacity = device_bytes - std::min(headroom, device_bytes);
  return bytes;
}

}  // namespace

void check_options(const DeviceAllocatorOptions& options) {
  if (options.segment_bytes < 2_MiB) {
    throw InvalidArgument(
        format_text("DeviceAllocatorOptions::segment_bytes is {}; accepted: 2 MiB or more",
                    options.segment_bytes));
  }
  check_choice("DeviceAllocatorOptions::cross_stream_reuse", options.cross_stream_reuse,
               {"never", "when_idle", "behind_waits", "before_growth"});
  const auto age = options.release_unused_after;
  if (age && *age < std::chrono::milliseconds(1)) {
    throw InvalidArgument(format_text(
        "DeviceAllocatorOptions::release_unused_after is {} ms; accepted: 1 ms or more, or nullopt",
        age->count()));
  }
  const std::size_t granule = options.granule_bytes;
  if (granule != 0 && !std::has_single_bit(granule)) {
    throw InvalidArgument(format_text(
        "DeviceAllocatorOptions::granule_bytes is {}; accepted: 0 or a power of two", granule));
  }
}

DeviceMemory::DeviceMemory(DeviceContext& context, EventPool& events,
                           DeviceAllocatorOptions options)
    : context_(context),
      events_(events),
      options_((check_options(options), std::move(options))),
      pressure_(options_.on_pressure),
      on_pressure_([this](std::size_t bytes_missing) { return pressure_.call(bytes_missing); }),
      device_bytes_(total_bytes(context)),
      budget_(device_limits(options_, options_.limits, device_bytes_)),
      own_(setup(), {}) {
  if (options_.release_unused_after) {
    const std::chrono::nanoseconds age = *options_.release_unused_after;
    background_.emplace([this, age] { release_in_background(age); }, age / kReleasesInAge);
  }
  context_.add_observer(*this);  // last, because nothing after it may throw
}

DeviceMemory::~DeviceMemory() {
  background_.reset();
  if (!is_usable()) return;
  context_.remove_observer(*this);
  end_open_pools();
  const ContextScope scope(context_, std::nothrow);
  wait_for_or_report(context_);
}

/// Their memory is returned, and their handles have no effect any more.
void DeviceMemory::end_open_pools() noexcept {
  if (private_.has_open()) {
    context_.driver().report(Severity::warning, [this] {
      std::vector<std::string> names;
      for (const auto& pool : private_.open()) names.push_back(pool->name());
      return format_text(
          "the Runtime ends while {} {} ({}), and closes {}; accepted: pools and their scopes end "
          "first",
          counted(names.size(), "memory pool"), names.size() == 1 ? "lives" : "live",
          join_texts(names, ", "), names.size() == 1 ? "it" : "them");
    });
  }
  private_.detach_handles();
}

DevicePool::Setup DeviceMemory::setup() {
  return {.context = context_,
          .events = events_,
          .device = options_,
          .on_pressure = on_pressure_,
          .device_budget = budget_,
          .others = [this](const DevicePool& asking, std::size_t bytes,
                           CachingAllocator::HostWait wait) {
            return release_others(asking, bytes, wait);
          }};
}

void* DeviceMemory::allocate_in_scope(std::size_t bytes, StreamRef stream) {
  own_.require_usable();
  if (const auto pool = scopes_.find(stream)) return pool->allocate(bytes, stream);
  return own_.allocate(bytes, stream);
}

template <class Use>
void DeviceMemory::with_pool_of(void* data, const Use& use) {
  if (private_.any() && is_usable()) {
    if (const auto pool = private_.find(data)) return use(*pool);
  }
  use(own_);
}

void DeviceMemory::deallocate_slow(void* data) {
  with_pool_of(data, [&](DevicePool& pool) {
    if (&pool == &own_) return own_.allocator().deallocate_slow(data);
    pool.deallocate(data);
  });
}

void DeviceMemory::deallocate_used(void* data, StreamRef user) {
  if (!own_.is_usable()) return;
  record_use(data, user);
  deallocate(data);
}

void DeviceMemory::record_stream(void* data, StreamRef stream) {
  with_pool_of(data, [&](DevicePool& pool) { pool.record_stream(data, stream); });
}

void DeviceMemory::record_use(void* data, StreamRef stream) {
  with_pool_of(data, [&](DevicePool& pool) { pool.record_use(data, stream); });
}

std::size_t DeviceMemory::release_others(const DevicePool& asking, std::size_t bytes,
                                         CachingAllocator::HostWait wait) {
  if (!private_.any()) return 0;
  std::size_t released = 0;
  const auto release = [&](DevicePool& pool) {
    if (&pool == &asking || released >= bytes) return;
    released += pool.allocator().release_cached(bytes - released, wait);
  };
  for (const auto& pool : private_.all()) release(*pool);
  release(own_);
  return released;
}

std::size_t DeviceMemory::trim(std::size_t bytes_to_keep) {
  own_.require_usable();
  const std::size_t of_closed = private_.clean_up();
  const std::size_t reserved = budget_.reserved();
  const std::size_t bytes = reserved > bytes_to_keep ? reserved - bytes_to_keep : 0;
  CachingAllocator::Returned released =
      own_.allocator().try_release(bytes, CachingAllocator::HostWait::yes);
  for (const auto& pool : private_.all()) {
    if (released.bytes >= bytes) break;
    released.add(
        pool->allocator().try_release(bytes - released.bytes, CachingAllocator::HostWait::yes));
  }
  return of_closed + own_.allocator().require_returned(released, bytes);
}

std::size_t DeviceMemory::release_unused(std::chrono::nanoseconds age) {
  own_.require_usable();
  std::size_t released = own_.release_unused(age);
  for (const auto& pool : private_.all()) released += pool->release_unused(age);
  return released;
}

void DeviceMemory::release_in_background(std::chrono::nanoseconds age) noexcept {
  try {
    release_unused(age);
  } catch (const std::exception& error) {  // an Error or std::bad_alloc
    context_.driver().report(Severity::warning, own_.name(),
                             ": unused memory could not be returned", error);
  }
}

bool DeviceMemory::owns(const void* data) const {
  return is_usable() && (own_.owns(data) || (private_.any() && private_.find(data) != nullptr));
}

std::optional<MemoryBlock> DeviceMemory::find(const void* data) {
  if (std::optional<MemoryBlock> found = own_.find(data)) return found;
  if (!private_.any()) return std::nullopt;
  const auto pool = private_.find(data);
  return pool != nullptr ? pool->find(data) : std::nullopt;
}

std::optional<MemoryProperties> DeviceMemory::properties(const void* data) {
  if (std::optional<MemoryProperties> found = own_.properties(data)) return found;
  const auto pool = private_.any() ? private_.find(data) : nullptr;
  return pool != nullptr ? pool->properties(data) : std::nullopt;
}

bool DeviceMemory::is_for_graphs(const void* data) const {
  if (!is_usable() || !private_.any()) return false;
  const auto pool = private_.find(data);
  return pool != nullptr && pool->is_for_graphs();
}

void DeviceMemory::validate() const {
  own_.validate();
  for (const auto& pool : private_.all()) pool->validate();
}

void DeviceMemory::set_limits(const MemoryLimits& limits) {
  own_.require_usable();
  budget_.set_limits(device_limits(options_, limits, device_bytes_));
}

std::shared_ptr<DevicePool> DeviceMemory::open(const MemoryPoolOptions& options) {
  own_.require_usable();
  MappingNotices::require_outside("create_pool()");
  check_name(options.name);
  try {
    private_.clean_up();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // A stream is captured, or the device has failed. Later calls try again; close() has reported.
  }
  auto pool = std::make_shared<DevicePool>(setup(), options);
  private_.add(pool);
  return pool;
}

std::uint64_t DeviceMemory::open_scope(const PoolScopes::Extent& extent,
                                       std::shared_ptr<DevicePool> pool) {
  own_.require_usable();
  return scopes_.open(extent, std::move(pool));
}

void DeviceMemory::close_scope(std::uint64_t number) noexcept {
  if (is_usable()) scopes_.close(number);
}

std::vector<std::shared_ptr<DevicePool>> DeviceMemory::private_pools() const {
  own_.require_usable();
  return private_.all();
}

void DeviceMemory::close(DevicePool& pool) noexcept {
  if (!is_usable()) return;
  try {
    private_.close(pool);
    private_.clean_up();
  } catch (const std::exception& error) {  // an Error or std::bad_alloc
    context_.driver().report(Severity::error, pool.name(), " is closed, but keeps its memory",
                             error);
  }
}

std::vector<std::shared_ptr<DevicePool>> DeviceMemory::named(std::string_view name) const {
  own_.require_usable();
  std::vector<std::shared_ptr<DevicePool>> pools = private_.open();
  std::vector<std::string> names;
  std::erase_if(pools, [&](const auto& pool) {
    names.push_back(pool->own_name());
    return names.back() != name;
  });
  if (pools.empty()) {
    const std::string accepted =
        names.empty() ? "none, there are no open pools" : join_texts(names, ", ");
    for (const auto& closed : private_.all()) {
      if (closed->own_name() != name) continue;
      throw InvalidArgument(format_text(
          "{} is closed, and can neither sleep nor wake: {}; accepted: {}", closed->name(),
          closed->is_asleep() ? "it was closed asleep, so its blocks can only be freed"
                              : "its blocks are in use",
          accepted));
    }
    throw InvalidArgument(format_text("{} has no memory pool named {}; accepted: {}", own_.name(),
                                      quoted(name), accepted));
  }
  return pools;
}

std::size_t DeviceMemory::sleep(std::string_view name, SleepContent content) {
  const std::vector<std::shared_ptr<DevicePool>> pools = named(name);
  std::vector<std::pair<DevicePool*, Reserve::Sleep>> begun;
  begun.reserve(pools.size());  // so that emplace_back() cannot fail
  try {
    for (const auto& pool : pools) {
      if (auto sleep = pool->begin_sleep(content)) {
        BERTH_CHECK(begun.size() < begun.capacity());  // or the pool would stay asleep
        begun.emplace_back(pool.get(), *std::move(sleep));
      }
    }
  } catch (...) {
    for (const auto& [pool, sleep] : begun) pool->cancel_sleep(sleep);
    throw;
  }
  // From here on all fall asleep, because content may be lost.
  Reserve::Returned all;
  const DevicePool* refused = nullptr;
  for (const auto& [pool, sleep] : begun) {
    const Reserve::Returned returned = pool->finish_sleep(sleep);
    all.add(returned);
    if (returned.refusal) refused = pool;
  }
  if (refused != nullptr) refused->require_asleep(all);
  return all.bytes;
}

void DeviceMemory::wake(std::string_view name) {
  for (const auto& pool : named(name)) pool->wake();
}

}  // namespace berth
