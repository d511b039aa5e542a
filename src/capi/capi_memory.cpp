// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdint>

#include "capi/capi_allocator.hpp"
#include "capi/capi_convert.hpp"
#include "capi/capi_counters.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

namespace {

/// Calls use(memory) with the allocator as its own type: a device's allocator, or a private pool.
template <class Use>
void with_device_memory(berth_allocator* allocator, const Use& use) {
  Allocator& any = to_allocator(allocator);
  if (auto* const device = as_kind<DeviceAllocator>(any)) return use(*device);
  if (auto* const pool = as_kind<MemoryPool>(any)) return use(*pool);
  throw InvalidArgument(
      "\"allocator\" is an allocator of host memory; accepted: the result of "
      "berth_allocator_get_device() or "
      "berth_memory_pool_get_allocator()");
}

DeviceAllocator& to_device_allocator(berth_allocator* allocator) {
  if (auto* const device = as_kind<DeviceAllocator>(to_allocator(allocator))) return *device;
  throw InvalidArgument(
      "\"allocator\" is not that of a device; accepted: what berth_allocator_get_device() gave");
}

HostAllocator& to_host_allocator(berth_allocator* allocator) {
  if (auto* const host = as_kind<HostAllocator>(to_allocator(allocator))) return *host;
  throw InvalidArgument(
      "\"allocator\" is not the allocator of cpu; accepted: the result of "
      "berth_allocator_get_host()");
}

void* allocate(Allocator& any, std::size_t bytes, berth_stream stream) {
  if (stream.context == nullptr) {
    if (auto* const host = as_kind<HostAllocator>(any)) return host->allocate_raw(bytes);
    if (auto* const pinned = as_kind<PinnedAllocator>(any)) return pinned->allocate_raw(bytes);
  }
  return any.allocate_raw(bytes, to_stream(stream));
}

std::optional<MemoryAmount> to_limit(std::size_t bytes) {
  return bytes == BERTH_NO_LIMIT ? std::nullopt : std::optional<MemoryAmount>(bytes);
}

}  // namespace

berth_status berth_allocator_get_device(berth_runtime* runtime, berth_device device,
                                        berth_allocator** allocator) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require(allocator, "allocator");
    const Device of = to_device(device);
    out = of.is_cpu() ? from_allocator(owner.host_memory()) : from_allocator(owner.memory(of));
  });
}

berth_status berth_allocator_get_pinned(berth_runtime* runtime, berth_allocator** allocator) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require(allocator, "allocator");
    out = from_allocator(owner.pinned_memory());
  });
}

berth_status berth_allocator_get_host(berth_runtime* runtime, berth_allocator** allocator) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require(allocator, "allocator");
    out = from_allocator(owner.host_memory());
  });
}

berth_status berth_allocator_get_location(berth_allocator* allocator, berth_device* device) {
  return guarded([&] {
    const Allocator& any = to_allocator(allocator);
    require(device, "device") = from_device(any.device());
  });
}

berth_status berth_allocator_allocate(berth_allocator* allocator, std::size_t bytes,
                                      berth_stream stream, void** data) {
  return guarded([&] {
    Allocator& any = to_allocator(allocator);
    auto& out = require(data, "data");
    out = allocate(any, bytes, stream);
  });
}

berth_status berth_allocator_allocate_host(berth_allocator* allocator, std::size_t bytes,
                                           void** data) {
  return guarded([&] {
    HostAllocator& host = to_host_allocator(allocator);
    auto& out = require(data, "data");
    out = host.allocate_raw(bytes);
  });
}

berth_status berth_allocator_deallocate(berth_allocator* allocator, void* data) {
  return guarded([&] { to_allocator(allocator).deallocate(data); });
}

berth_status berth_allocator_record_stream(berth_allocator* allocator, void* data,
                                           berth_stream stream) {
  return guarded([&] { to_allocator(allocator).record_stream(data, to_stream(stream)); });
}

berth_status berth_allocator_record_use(berth_allocator* allocator, void* data,
                                        berth_stream stream) {
  return guarded([&] { to_allocator(allocator).record_use(data, to_stream(stream)); });
}

berth_status berth_allocator_trim(berth_allocator* allocator, std::size_t bytes_to_keep,
                                  std::size_t* bytes_released) {
  return guarded([&] {
    Allocator& any = to_allocator(allocator);
    auto& out = require(bytes_released, "bytes_released");
    out = any.trim(bytes_to_keep);
  });
}

berth_status berth_allocator_release_unused(berth_allocator* allocator, std::uint64_t age_ns,
                                            std::size_t* bytes_released) {
  return guarded([&] {
    Allocator& any = to_allocator(allocator);
    auto& out = require(bytes_released, "bytes_released");
    const auto age = std::min<std::uint64_t>(age_ns, INT64_MAX);
    out = any.release_unused(std::chrono::nanoseconds(static_cast<std::int64_t>(age)));
  });
}

berth_status berth_allocator_retire_stream(berth_allocator* allocator, berth_stream stream) {
  return guarded([&] {
    Allocator& any = to_allocator(allocator);
    any.retire_stream(to_stream(stream));
  });
}

berth_status berth_allocator_set_limits(berth_allocator* allocator, std::size_t bytes_reserved_max,
                                        std::size_t bytes_reserved_soft_max) {
  return guarded([&] {
    with_device_memory(allocator, [&](auto& memory) {
      memory.set_limits({.bytes_reserved_max = to_limit(bytes_reserved_max),
                         .bytes_reserved_soft_max = to_limit(bytes_reserved_soft_max)});
    });
  });
}

berth_status berth_allocator_set_on_pressure(berth_allocator* allocator,
                                             berth_pressure_function on_pressure, void* user) {
  return guarded(
      [&] { to_device_allocator(allocator).set_on_pressure(to_pressure(on_pressure, user)); });
}

berth_status berth_allocator_owns(berth_allocator* allocator, const void* data, bool* owns) {
  return guarded([&] {
    const auto ask = [&](const auto& memory) { require(owns, "owns") = memory.owns(data); };
    if (const auto* const pinned = as_kind<PinnedAllocator>(to_allocator(allocator)))
      return ask(*pinned);
    with_device_memory(allocator, ask);
  });
}

berth_status berth_allocator_is_for_graphs(berth_allocator* allocator, const void* data,
                                           bool* is_for_graphs) {
  return guarded([&] {
    const DeviceAllocator& memory = to_device_allocator(allocator);
    auto& out = require(is_for_graphs, "is_for_graphs");
    out = memory.is_for_graphs(data);
  });
}

berth_status berth_allocator_get_properties(berth_allocator* allocator, const void* data,
                                            berth_memory_properties* properties) {
  return guarded([&] {
    Allocator& any = to_allocator(allocator);
    auto& out = require_struct(properties, "properties");
    auto* const device = as_kind<DeviceAllocator>(any);
    auto* const pool = as_kind<MemoryPool>(any);
    if (device == nullptr && pool == nullptr) {
      throw InvalidArgument("\"allocator\" is not that of a device or of a pool");
    }
    berth_memory_properties found{};
    if (const auto live = device != nullptr ? device->properties(data) : pool->properties(data)) {
      found.flags = BERTH_MEMORY_IS_LIVE;
      if (live->is_contiguous) found.flags |= BERTH_MEMORY_IS_CONTIGUOUS;
      if (live->is_exportable) found.flags |= BERTH_MEMORY_IS_EXPORTABLE;
      if (live->is_fabric_exportable) found.flags |= BERTH_MEMORY_IS_FABRIC_EXPORTABLE;
      if (live->is_rdma_capable) found.flags |= BERTH_MEMORY_IS_RDMA_CAPABLE;
      found.segment = live->segment;
      found.segment_bytes = live->segment_bytes;
    }
    write_struct(found, out);
  });
}

berth_status berth_memory_find(berth_runtime* runtime, const void* data,
                               berth_memory_block* block) {
  return guarded([&] {
    Runtime& owner = to_runtime(runtime);
    auto& out = require_struct(block, "block");
    berth_memory_block found{};
    if (const auto live = owner.find(data)) {
      found = {.struct_size = 0,
               .allocator = from_allocator(*live->allocator),
               .data = live->data,
               .bytes = live->bytes,
               .device = from_device(live->device)};
    }
    write_struct(found, out);
  });
}

berth_status berth_allocator_get_counters(berth_allocator* allocator, berth_memory_gauges* gauges,
                                          berth_memory_totals* totals) {
  return guarded([&] {
    const Allocator& any = to_allocator(allocator);
    write_counters_of([&] { return any.counters(); }, gauges, totals);
  });
}

berth_status berth_allocator_reset_peaks(berth_allocator* allocator) {
  return guarded([&] { to_allocator(allocator).reset_peaks(); });
}

berth_status berth_allocator_validate(berth_allocator* allocator) {
  return guarded([&] { to_allocator(allocator).validate(); });
}
