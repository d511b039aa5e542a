// SPDX-License-Identifier: Apache-2.0
// Statistics for programs. Fields keep their names in the structs; docs/statistics.md describes the
// object.
#include <cstdint>
#include <optional>
#include <string>

#include "berth/statistics.hpp"

#include "base/json_writer.hpp"

namespace berth {
namespace {

const char* describe(BlockState state) {
  switch (state) {
    case BlockState::allocated:
      return "allocated";
    case BlockState::pending:
      return "pending";
    case BlockState::free:
      return "free";
  }
  return "";
}

void write(JsonWriter& json, const DriverInfo& driver) {
  json.begin_object().field("name", driver.name).field("usable", driver.usable).key("problem");
  if (driver.problem.empty()) {
    json.null();
  } else {
    json.value(driver.problem);
  }
  json.field("version", driver.version).end_object();
}

void write(JsonWriter& json, const DeviceInfo& device) {
  json.begin_object().field("physical", device.physical).key("logical");
  if (device.logical) {
    json.value(*device.logical);
  } else {
    json.null();
  }
  json.field("uuid", device.uuid)
      .field("pci_bus_id", device.pci_bus_id)
      .field("name", device.name)
      .field("memory_bytes", device.memory_bytes)
      .end_object();
}

void write(JsonWriter& json, const MemoryCounters& counters) {
  json.begin_object();
#define BERTH_WRITE_GAUGE(name, help)          \
  json.key(#name)                              \
      .begin_object()                          \
      .field("current", counters.name.current) \
      .field("peak", counters.name.peak)       \
      .end_object();
  BERTH_MEMORY_GAUGES(BERTH_WRITE_GAUGE)
#undef BERTH_WRITE_GAUGE
#define BERTH_WRITE_TOTAL(name, help) json.field(#name, counters.name);
  BERTH_MEMORY_TOTALS(BERTH_WRITE_TOTAL)
#undef BERTH_WRITE_TOTAL
  json.end_object();
}

void write(JsonWriter& json, const BlockInfo& block) {
  json.begin_object()
      .field("address", block.address)
      .field("bytes", block.bytes)
      .field("bytes_requested", block.bytes_requested)
      .field("state", describe(block.state))
      .key("stream");
  if (block.stream) {
    json.value(reinterpret_cast<std::uintptr_t>(*block.stream));
  } else {
    json.null();
  }
  json.field("data", block.data).field("continues", block.continues).end_object();
}

void write(JsonWriter& json, const SegmentInfo& segment);
void write(JsonWriter& json, const MemorySnapshot& snapshot);
void write(JsonWriter& json, const DriverCallCount& count);
void write(JsonWriter& json, const BackendDevice& device);

template <class Items>
void write_array(JsonWriter& json, const char* name, const Items& items) {
  json.key(name).begin_array();
  for (const auto& item : items) write(json, item);
  json.end_array();
}

void write(JsonWriter& json, const SegmentInfo& segment) {
  json.begin_object().field("address", segment.address).field("bytes", segment.bytes);
  write_array(json, "blocks", segment.blocks);
  json.end_object();
}

void write(JsonWriter& json, const MemorySnapshot& snapshot) {
  json.begin_object().field("allocator", snapshot.allocator).key("counters");
  write(json, snapshot.counters);
  write_array(json, "segments", snapshot.segments);
  json.field("largest_free_block_bytes", snapshot.largest_free_block_bytes).end_object();
}

void write(JsonWriter& json, const DriverCallCount& count) {
  json.begin_object().field("function", count.function).field("calls", count.calls).end_object();
}

void write(JsonWriter& json, const CopyCounters& copies) {
  json.begin_object()
      .field("copies_direct", copies.copies_direct)
      .field("copies_staged", copies.copies_staged)
      .field("copies_by_driver", copies.copies_by_driver)
      .field("copies_host", copies.copies_host)
      .field("bytes_copied", copies.bytes_copied)
      .field("staging_waits", copies.staging_waits)
      .field("staging_bytes", copies.staging_bytes)
      .end_object();
}

void write(JsonWriter& json, const char* name, const std::optional<std::uint64_t>& value) {
  json.key(name);
  if (value) {
    json.value(*value);
  } else {
    json.null();
  }
}

void write(JsonWriter& json, const BackendMemory& memory) {
  json.begin_object();
  write(json, "bytes_used", memory.bytes_used);
  write(json, "bytes_used_peak", memory.bytes_used_peak);
  write(json, "bytes_limit", memory.bytes_limit);
  write(json, "bytes_reserved", memory.bytes_reserved);
  write(json, "bytes_reserved_peak", memory.bytes_reserved_peak);
  write(json, "largest_free_block_bytes", memory.largest_free_block_bytes);
  write(json, "allocations", memory.allocations);
  json.end_object();
}

void write(JsonWriter& json, const BufferCounters& buffers) {
  json.begin_object()
      .field("buffers_live", buffers.buffers_live)
      .field("bytes_live", buffers.bytes_live)
      .field("bytes_live_peak", buffers.bytes_live_peak)
      .field("buffers_created", buffers.buffers_created)
      .field("bytes_written", buffers.bytes_written)
      .field("bytes_read", buffers.bytes_read)
      .field("bytes_copied", buffers.bytes_copied)
      .field("staging_bytes", buffers.staging_bytes)
      .end_object();
}

void write(JsonWriter& json, const BackendDevice& device) {
  json.begin_object()
      .field("device", device.device.to_string())
      .field("backend", device.backend)
      .field("name", device.description.name)
      .field("kind", device.description.kind);
  write(json, "memory_bytes", device.description.memory_bytes);
  json.key("memory");
  write(json, device.memory);
  json.key("buffers");
  write(json, device.buffers);
  json.end_object();
}

}  // namespace

std::string to_json(const Statistics& statistics) {
  JsonWriter json;
  json.begin_object().key("driver");
  write(json, statistics.driver);
  write_array(json, "devices", statistics.devices);
  write_array(json, "allocators", statistics.allocators);
  write_array(json, "driver_calls", statistics.driver_calls);
  json.key("copies");
  write(json, statistics.copies);
  write_array(json, "backend_devices", statistics.backend_devices);
  return std::move(json.end_object()).take();
}

}  // namespace berth
