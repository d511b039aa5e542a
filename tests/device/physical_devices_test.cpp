// SPDX-License-Identifier: Apache-2.0
#include "device/physical_devices.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "sim/simulator.hpp"
#include "support/driver_tap.hpp"
#include "support/environment.hpp"

using namespace berth;
using namespace berth::test;

namespace {

DeviceInfo shown(int logical, std::string uuid, std::string pci) {
  return {0, logical, std::move(uuid), std::move(pci), "shown by CUDA", 8_GiB};
}

Nvml::Device known(std::string uuid, std::string pci) {
  return {std::move(uuid), std::move(pci), "known to NVML", 16_GiB};
}

using Devices = std::vector<DeviceInfo>;
using Known = std::vector<Nvml::Device>;

}  // namespace

TEST_CASE("no devices on either side are none") {
  CHECK(join_devices({}, {}).empty());
}

TEST_CASE("a device that both sides have is one, with what CUDA says of it") {
  const Devices joined =
      join_devices({shown(0, "GPU-a", "00000000:01:00.0")}, {known("GPU-a", "00000000:01:00.0")});
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].physical == 0);
  CHECK(joined[0].logical == 0);
  CHECK(joined[0].uuid == "GPU-a");
  CHECK(joined[0].name == "shown by CUDA");
  CHECK(joined[0].memory_bytes == 8_GiB);
}

TEST_CASE("a device that only NVML knows is hidden, with what NVML says of it") {
  const Devices joined = join_devices({}, {known("GPU-a", "00000000:01:00.0")});
  REQUIRE(joined.size() == 1);
  CHECK_FALSE(joined[0].visible());
  CHECK(joined[0].physical == 0);
  CHECK(joined[0].name == "known to NVML");
  CHECK(joined[0].memory_bytes == 16_GiB);
}

TEST_CASE("without NVML what CUDA shows is all there is") {
  const Devices joined = join_devices(
      {shown(0, "GPU-b", "00000000:02:00.0"), shown(1, "GPU-a", "00000000:01:00.0")}, {});
  REQUIRE(joined.size() == 2);
  CHECK(joined[0].uuid == "GPU-a");
  CHECK(joined[0].logical == 1);
  CHECK(joined[0].physical == 0);
  CHECK(joined[1].uuid == "GPU-b");
  CHECK(joined[1].logical == 0);
  CHECK(joined[1].physical == 1);
}

TEST_CASE("devices are joined by UUID, whatever the order of either side") {
  const Known all = {known("GPU-a", "00000000:01:00.0"), known("GPU-b", "00000000:02:00.0"),
                     known("GPU-c", "00000000:03:00.0"), known("GPU-d", "00000000:04:00.0")};
  const Devices joined =
      join_devices({shown(0, "GPU-d", "00000000:04:00.0"), shown(1, "GPU-b", "00000000:02:00.0")},
                   {all[2], all[0], all[3], all[1]});
  REQUIRE(joined.size() == 4);
  const std::vector<std::optional<int>> logical = {std::nullopt, 1, std::nullopt, 0};
  for (std::size_t index = 0; index < 4; ++index) {
    CAPTURE(index);
    CHECK(joined[index].uuid == all[index].uuid);
    CHECK(joined[index].pci_bus_id == all[index].pci_bus_id);
    CHECK(joined[index].physical == int(index));
    CHECK(joined[index].logical == logical[index]);
  }
}

TEST_CASE("devices with one UUID but different addresses are one device, CUDA's") {
  const Devices joined =
      join_devices({shown(0, "GPU-a", "00000000:09:00.0")}, {known("GPU-a", "00000000:01:00.0")});
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].pci_bus_id == "00000000:09:00.0");
}

TEST_CASE("devices at one address with different UUIDs stay two") {
  const Devices joined =
      join_devices({shown(0, "GPU-a", "00000000:01:00.0")}, {known("GPU-b", "00000000:01:00.0")});
  REQUIRE(joined.size() == 2);
  CHECK(joined[0].visible());
  CHECK_FALSE(joined[1].visible());
}

TEST_CASE(
    "PCI addresses are in upper case with a domain of eight digits, so that text order is PCI "
    "order") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"0000:1a:00.0", "00000000:1A:00.0"},     {"00000000:1A:00.0", "00000000:1A:00.0"},
      {"00000000:ff:1f.7", "00000000:FF:1F.7"}, {"0001:02:00.0", "00000001:02:00.0"},
      {"10000:e1:00.0", "00010000:E1:00.0"},    {"0:0a:00.0", "00000000:0A:00.0"},
  };
  for (const auto& pair : cases) {
    const std::string& given = pair.first;
    const std::string& expected = pair.second;
    CAPTURE(given);
    const Devices joined = join_devices({}, {known("GPU-a", given)});
    REQUIRE(joined.size() == 1);
    CHECK(joined[0].pci_bus_id == expected);
  }
  const Devices ordered =
      join_devices({}, {known("GPU-a", "0001:01:00.0"), known("GPU-b", "0000:ff:00.0"),
                        known("GPU-c", "0000:0a:00.0"), known("GPU-d", "0000:0A:00.1")});
  REQUIRE(ordered.size() == 4);
  CHECK(ordered[0].uuid == "GPU-c");
  CHECK(ordered[1].uuid == "GPU-d");
  CHECK(ordered[2].uuid == "GPU-b");
  CHECK(ordered[3].uuid == "GPU-a");
}

TEST_CASE("what CUDA shows of a device joins with what NVML knows of it") {
  const ScopedEnvironment visible("CUDA_VISIBLE_DEVICES", "2,0");
  sim::Config config;
  config.devices = 3;
  config.memory = {4_GiB, 5_GiB, 6_GiB};
  sim::Simulator simulator(config);
  DriverTap tap;
  const Driver driver(tap.source(), {});
  const Nvml nvml(tap.source());
  const Devices seen = read_visible_devices(driver);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].logical == 0);
  CHECK(seen[0].memory_bytes == 6_GiB);
  CHECK(seen[1].logical == 1);
  CHECK(seen[1].memory_bytes == 4_GiB);
  const Known all = nvml.devices();
  REQUIRE(all.size() == 3);
  CHECK(seen[0].uuid == all[2].uuid);
  CHECK(seen[0].pci_bus_id == all[2].pci_bus_id);
  CHECK(seen[1].uuid == all[0].uuid);
  CHECK(join_devices(seen, all).size() == 3);
  CHECK(simulator.live().contexts == 0);
}

TEST_CASE("a driver that is not usable shows no devices") {
  const Driver driver(DriverSource{}, {});
  CHECK(read_visible_devices(driver).empty());
}
