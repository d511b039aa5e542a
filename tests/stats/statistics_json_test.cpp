// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "berth/statistics.hpp"

#include "stats/statistics_samples.hpp"

namespace statistics_json_test {

using namespace berth;
using namespace berth::test;
using Json = nlohmann::ordered_json;

TEST_CASE("the object has the fields of Statistics, in their order") {
  const Json object = Json::parse(to_json(sample_statistics()));
  std::string keys;
  for (const auto& item : object.items()) keys += item.key() + " ";
  CHECK(keys == "driver devices allocators driver_calls copies backend_devices ");
}

TEST_CASE("driver, devices, calls and copies keep every field under its own name") {
  const Json object = Json::parse(to_json(sample_statistics()));
  CHECK(object["driver"] ==
        Json::parse(R"({"name": "sim", "usable": true, "problem": null, "version": 12020})"));
  CHECK(object["devices"] == Json::parse(R"([
        {"physical": 0, "logical": 1, "uuid": "GPU-a", "pci_bus_id": "00000000:1A:00.0",
         "name": "NVIDIA H100 80GB HBM3", "memory_bytes": 85899345920},
        {"physical": 1, "logical": null, "uuid": "GPU-b", "pci_bus_id": "00000000:1B:00.0",
         "name": "NVIDIA GeForce RTX 4090", "memory_bytes": 25769803776}])"));
  CHECK(object["driver_calls"] == Json::parse(R"([
        {"function": "cuMemCreate", "calls": 12}, {"function": "cuEventRecord", "calls": 3456},
        {"function": "cuMemMap", "calls": 78}])"));
  CHECK(object["copies"] == Json::parse(R"({"copies_direct": 11, "copies_staged": 12,
        "copies_by_driver": 16, "copies_host": 13, "bytes_copied": 14680064,
        "staging_waits": 15, "staging_bytes": 17})"));
}

TEST_CASE("a device of a backend has its memory and its buffers, and null for what is unknown") {
  Statistics statistics;
  BackendDevice& device = statistics.backend_devices.emplace_back();
  device.device = Device::of(DeviceType::register_name("tpu"), 3);
  device.backend = "PJRT tpu";
  device.description.name = "TPU_3";
  device.description.kind = "TPU v5 lite";
  device.memory.bytes_used = 1;
  device.memory.bytes_used_peak = 2;
  device.memory.bytes_limit = 3;
  device.memory.bytes_reserved = 4;
  device.memory.bytes_reserved_peak = 5;
  device.memory.largest_free_block_bytes = 6;
  device.buffers = {11, 12, 13, 14, 15, 16, 17, 18};
  CHECK(Json::parse(to_json(statistics))["backend_devices"] == Json::parse(R"([
        {"device": "tpu:3", "backend": "PJRT tpu", "name": "TPU_3", "kind": "TPU v5 lite",
         "memory_bytes": null,
         "memory": {"bytes_used": 1, "bytes_used_peak": 2, "bytes_limit": 3, "bytes_reserved": 4,
                    "bytes_reserved_peak": 5, "largest_free_block_bytes": 6, "allocations": null},
         "buffers": {"buffers_live": 11, "bytes_live": 12, "bytes_live_peak": 13,
                     "buffers_created": 14, "bytes_written": 15, "bytes_read": 16,
                     "bytes_copied": 17, "staging_bytes": 18}}])"));
}

TEST_CASE("every counter of the list is there with its value") {
  Statistics statistics;
  statistics.allocators.emplace_back();
  MemoryCounters& counters = statistics.allocators.back().counters;
  std::uint64_t next = 1;
#define BERTH_SET(name, help) counters.name = {next, next + 1}, next += 2;
  BERTH_MEMORY_GAUGES(BERTH_SET)
#undef BERTH_SET
#define BERTH_SET(name, help) counters.name = next++;
  BERTH_MEMORY_TOTALS(BERTH_SET)
#undef BERTH_SET

  const Json object = Json::parse(to_json(statistics))["allocators"][0]["counters"];
  std::size_t count = 0;
#define BERTH_CHECK_GAUGE(name, help)                       \
  CHECK(object[#name]["current"] == counters.name.current); \
  CHECK(object[#name]["peak"] == counters.name.peak);       \
  ++count;
  BERTH_MEMORY_GAUGES(BERTH_CHECK_GAUGE)
#undef BERTH_CHECK_GAUGE
#define BERTH_CHECK_TOTAL(name, help)    \
  CHECK(object[#name] == counters.name); \
  ++count;
  BERTH_MEMORY_TOTALS(BERTH_CHECK_TOTAL)
#undef BERTH_CHECK_TOTAL
  CHECK(object.size() == count);
}

TEST_CASE("segments and blocks have addresses and streams as integers, and states as words") {
  const Json allocator = Json::parse(to_json(sample_statistics()))["allocators"][0];
  CHECK(allocator["allocator"] == "cuda:0");
  CHECK(allocator["largest_free_block_bytes"] == 5242880);
  REQUIRE(allocator["segments"].size() == 2);
  const Json& segment = allocator["segments"][0];
  CHECK(segment["address"] == 0x7f0000000000);
  CHECK(segment["bytes"] == 4194304);
  CHECK(segment["blocks"] == Json::parse(R"([
        {"address": 139637976727552, "bytes": 1048576, "bytes_requested": 1000,
         "state": "allocated", "stream": 0, "data": 0, "continues": false},
        {"address": 139637977776128, "bytes": 1048576, "bytes_requested": 900,
         "state": "pending", "stream": 4096, "data": 0, "continues": false},
        {"address": 139637978824704, "bytes": 2097152, "bytes_requested": 0,
         "state": "free", "stream": 4096, "data": 0, "continues": false}])"));
  CHECK(allocator["segments"][1]["blocks"][0]["stream"].is_null());
}

TEST_CASE("names that are not valid UTF-8 are written on one line") {
  Statistics statistics;
  statistics.driver.name = "\xff\n";
  const std::string text = to_json(statistics);
  CHECK(std::count(text.begin(), text.end(), '\n') == 0);
  CHECK(Json::parse(text)["driver"]["name"] == "\ufffd\n");
}

TEST_CASE("64-bit numbers are exact") {
  Statistics statistics;
  statistics.copies.bytes_copied = ~std::uint64_t{0};
  CHECK(Json::parse(to_json(statistics))["copies"]["bytes_copied"] == ~std::uint64_t{0});
}

}  // namespace statistics_json_test
