// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "berth/bytes.hpp"

#include "base/format.hpp"
#include "capi/capi_allocator.hpp"
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

namespace {

std::optional<std::size_t> limit_unless_zero(std::size_t bytes) {
  return bytes == 0 ? std::nullopt : std::optional(bytes);
}

void set_unless_zero(std::size_t& option, std::size_t value) {
  if (value != 0) option = value;
}

using Gate = std::shared_ptr<CallbackGate>;

ReportSink to_sink(berth_report_function report, void* user, const Gate& gate) {
  if (report == nullptr) return nullptr;
  return [=](const Report& what) {
    gate->call([&] {
      report(user, what.severity == Severity::error ? BERTH_SEVERITY_ERROR : BERTH_SEVERITY_WARNING,
             what.message.c_str());
    });
  };
}

std::function<bool(std::size_t)> to_gated_pressure(const berth_runtime_options& from,
                                                   const Gate& gate) {
  const auto on_pressure = to_pressure(from.on_pressure, from.on_pressure_user);
  if (!on_pressure) return nullptr;
  return [=](std::size_t bytes_needed) {
    bool has_freed = false;
    gate->call([&] { has_freed = on_pressure(bytes_needed); });
    return has_freed;
  };
}

berth_mapped_range from_range(const MappedRange& range) {
  return {.struct_size = sizeof(berth_mapped_range),
          .data = range.data,
          .bytes = range.bytes,
          .piece_bytes = range.piece_bytes,
          .device = range.device.ordinal(),
          .is_alias = range.is_alias ? 1 : 0};
}

MappingCallback to_callback(berth_map_function on_map, void* user, const Gate& gate) {
  if (on_map == nullptr) return nullptr;
  return [=](const MappedRange& range) {
    const berth_mapped_range given = from_range(range);
    bool is_accepted = false;
    const bool is_called = gate->call([&] { is_accepted = on_map(user, &given); });
    if (is_accepted) return;
    throw OutOfMemory(format_text("{}: on_map {} {} of memory", range.device.to_string(),
                                  is_called ? "has refused" : "was ended, and accepts no",
                                  format_bytes(range.bytes)));
  };
}

MappingCallback to_callback(berth_unmap_function on_unmap, void* user, const Gate& gate) {
  if (on_unmap == nullptr) return nullptr;
  return [=](const MappedRange& range) {
    const berth_mapped_range given = from_range(range);
    gate->call([&] { on_unmap(user, &given); });
  };
}

RuntimeOptions to_options(const berth_runtime_options& from, const Gate& gate) {
  check_flags(from.flags, BERTH_RUNTIME_NO_VIRTUAL_MEMORY | BERTH_RUNTIME_IGNORE_ENVIRONMENT,
              "options.flags");
  RuntimeOptions options;
  options.read_environment = (from.flags & BERTH_RUNTIME_IGNORE_ENVIRONMENT) == 0;
  if (from.driver != nullptr) options.driver = from.driver;

  DeviceAllocatorOptions& device = options.device_allocator;
  device.virtual_memory = (from.flags & BERTH_RUNTIME_NO_VIRTUAL_MEMORY) == 0;
  if (from.device_bytes_reserved_max != 0) {
    device.limits.bytes_reserved_max = from.device_bytes_reserved_max;
  }
  set_unless_zero(device.granule_bytes, from.device_granule_bytes);
  set_unless_zero(device.segment_bytes, from.device_segment_bytes);
  device.on_pressure = to_gated_pressure(from, gate);
  device.on_map = to_callback(from.on_map, from.mapping_user, gate);
  device.on_unmap = to_callback(from.on_unmap, from.mapping_user, gate);

  options.pinned_allocator.bytes_reserved_max = limit_unless_zero(from.pinned_bytes_reserved_max);
  set_unless_zero(options.pinned_allocator.segment_bytes, from.pinned_segment_bytes);
  options.host_allocator.bytes_reserved_max = limit_unless_zero(from.host_bytes_reserved_max);
  set_unless_zero(options.stream_pool.streams_max, from.streams_max);
  set_unless_zero(options.copier.staging_slot_bytes, from.staging_slot_bytes);
  set_unless_zero(options.copier.staging_slots, from.staging_slots);
  options.report = to_sink(from.report, from.report_user, gate);
  if (from.configuration != nullptr) options = configure(std::move(options), from.configuration);
  return options;
}

}  // namespace

Runtime& berth::runtime_of(berth_runtime* handle) {
  return require(handle, "runtime").runtime;
}

berth_status berth_runtime_create(const berth_runtime_options* options, berth_runtime** runtime) {
  return guarded([&] {
    auto& out = require(runtime, "runtime");
    const auto gate = std::make_shared<CallbackGate>();
    RuntimeOptions chosen;
    if (options != nullptr) chosen = to_options(read_struct(options, "options"), gate);
    out = std::make_unique<berth_runtime>(std::move(chosen), gate).release();
  });
}

berth_status berth_runtime_end_callbacks(berth_runtime* runtime) {
  return guarded([&] { require(runtime, "runtime").callbacks->end(); });
}

void berth_runtime_destroy(berth_runtime* runtime) {
  delete runtime;
}

berth_status berth_driver_get_info(berth_runtime* runtime, berth_driver_info* info) {
  return guarded([&] {
    const DriverInfo& driver = require(runtime, "runtime").driver;
    auto& out = require_struct(info, "info");
    write_struct({.struct_size = 0,
                  .name = driver.name.c_str(),
                  .problem = driver.problem.c_str(),
                  .usable = driver.usable ? 1 : 0,
                  .version = driver.version},
                 out);
  });
}

berth_status berth_driver_get_function(berth_runtime* runtime, const char* name, int version,
                                       void** function) {
  return guarded([&] {
    Runtime& from = require(runtime, "runtime").runtime;
    auto& out = require(function, "function");
    out = from.driver_function(&require(name, "name"), version);
  });
}

void berth_string_free(char* text) {
  std::free(text);
}
