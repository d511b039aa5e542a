// SPDX-License-Identifier: Apache-2.0
// Statistics for programs. Fields keep their names in the structs; docs/statistics.md describes the
// object.
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "berth/statistics.hpp"

namespace berth {
namespace {

using Json = nlohmann::ordered_json;

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

Json make(const DeviceInfo& device);
Json make(const BlockInfo& block);
Json make(const SegmentInfo& segment);
Json make(const MemorySnapshot& snapshot);
Json make(const DriverCallCount& count);

template <class Items>
Json make_array(const Items& items) {
  Json result = Json::array();
  for (const auto& item : items) result.push_back(make(item));
  return result;
}

Json make(const DriverInfo& driver) {
  return {{"name", driver.name},
          {"usable", driver.usable},
          {"problem", driver.problem},
          {"version", driver.version}};
}

Json make(const DeviceInfo& device) {
  return {
      {"physical", device.physical}, {"logical", device.logical ? Json(*device.logical) : Json()},
      {"uuid", device.uuid},         {"pci_bus_id", device.pci_bus_id},
      {"name", device.name},         {"memory_bytes", device.memory_bytes}};
}

Json make(const MemoryCounters& counters) {
  Json result = Json::object();
#define BERTH_ADD_GAUGE(name, help) \
  result[#name] = Json{{"current", counters.name.current}, {"peak", counters.name.peak}};
  BERTH_MEMORY_GAUGES(BERTH_ADD_GAUGE)
#undef BERTH_ADD_GAUGE
#define BERTH_ADD_TOTAL(name, help) result[#name] = counters.name;
  BERTH_MEMORY_TOTALS(BERTH_ADD_TOTAL)
#undef BERTH_ADD_TOTAL
  return result;
}

Json make(const BlockInfo& block) {
  return {{"address", block.address},
          {"bytes", block.bytes},
          {"bytes_requested", block.bytes_requested},
          {"state", describe(block.state)},
          {"stream", block.stream ? Json(reinterpret_cast<std::uintptr_t>(*block.stream)) : Json()},
          {"data", block.data},
          {"continues", block.continues}};
}

Json make(const SegmentInfo& segment) {
  return {{"address", segment.address},
          {"bytes", segment.bytes},
          {"blocks", make_array(segment.blocks)}};
}

Json make(const MemorySnapshot& snapshot) {
  return {{"allocator", snapshot.allocator},
          {"counters", make(snapshot.counters)},
          {"segments", make_array(snapshot.segments)},
          {"largest_free_block_bytes", snapshot.largest_free_block_bytes}};
}

Json make(const DriverCallCount& count) {
  return {{"function", count.function}, {"calls", count.calls}};
}

Json make(const CopyCounters& copies) {
  return {{"copies_direct", copies.copies_direct},       {"copies_staged", copies.copies_staged},
          {"copies_by_driver", copies.copies_by_driver}, {"copies_host", copies.copies_host},
          {"bytes_copied", copies.bytes_copied},         {"staging_waits", copies.staging_waits}};
}

}  // namespace

std::string to_json(const Statistics& statistics) {
  const Json object = {{"driver", make(statistics.driver)},
                       {"devices", make_array(statistics.devices)},
                       {"allocators", make_array(statistics.allocators)},
                       {"driver_calls", make_array(statistics.driver_calls)},
                       {"copies", make(statistics.copies)}};
  // Names come from drivers and paths: bytes that are no UTF-8 are replaced, never a failure.
  constexpr int one_line = -1;
  return object.dump(one_line, ' ', false, Json::error_handler_t::replace);
}

}  // namespace berth
