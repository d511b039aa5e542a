// SPDX-License-Identifier: Apache-2.0
#include "device/physical_devices.hpp"

#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "device/device_names.hpp"
#include "driver/nvml.hpp"
#include "sim/simulator.hpp"
#include "support/driver_tap.hpp"
#include "support/environment.hpp"

namespace physical_devices_test {

using namespace berth;
using namespace berth::test;

namespace {

/// A UUID of which all bytes are `digit`, as "GPU-" or "MIG-" and this write it.
constexpr const char* kA = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa";
constexpr const char* kB = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb";
constexpr const char* kC = "cccccccc-cccc-cccc-cccc-cccccccccccc";
constexpr const char* kD = "dddddddd-dddd-dddd-dddd-dddddddddddd";

ShownDevice shown(int ordinal, const char* uuid, std::string pci) {
  CUuuid bytes{};
  std::memset(bytes.bytes, (uuid[0] - 'a' + 10) * 0x11, sizeof bytes.bytes);
  return {ordinal, bytes, std::move(pci), "shown by CUDA", 8_GiB};
}

KnownDevice known(const char* uuid, std::string pci) {
  KnownDevice device;
  device.uuid = std::string("GPU-") + uuid;
  device.pci_bus_id = std::move(pci);
  device.name = "known to NVML";
  device.memory_bytes = 16_GiB;
  device.mig_mode = false;
  return device;
}

/// In MIG mode, with an instance of each UUID.
KnownDevice split(KnownDevice device, std::initializer_list<const char*> uuids) {
  device.mig_mode = true;
  for (const char* uuid : uuids) {
    const auto number = unsigned(device.instances.size());
    device.instances.push_back({std::string("MIG-") + uuid, "known instance", 2_GiB, number, 0});
  }
  return device;
}

using Devices = std::vector<DeviceInfo>;
using Known = std::vector<KnownDevice>;

Devices joined_devices(const std::vector<ShownDevice>& shown, const Known& known) {
  return join_devices(shown, known).devices;
}

}  // namespace

TEST_CASE("without devices from CUDA or NVML the list is empty") {
  CHECK(joined_devices({}, {}).empty());
  CHECK(join_devices({}, {}).instances.empty());
}

TEST_CASE("a device of both lists is one device, with CUDA's facts") {
  const Devices joined =
      joined_devices({shown(0, kA, "00000000:01:00.0")}, {known(kA, "00000000:01:00.0")});
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].physical == 0);
  CHECK(joined[0].logical == 0);
  CHECK(joined[0].uuid == std::string("GPU-") + kA);
  CHECK(joined[0].name == "shown by CUDA");
  CHECK(joined[0].memory_bytes == 8_GiB);
}

TEST_CASE("a device known only to NVML is hidden, with NVML's facts") {
  const Devices joined = joined_devices({}, {known(kA, "00000000:01:00.0")});
  REQUIRE(joined.size() == 1);
  CHECK_FALSE(joined[0].visible());
  CHECK(joined[0].physical == 0);
  CHECK(joined[0].name == "known to NVML");
  CHECK(joined[0].memory_bytes == 16_GiB);
}

TEST_CASE("without NVML the list has the devices that CUDA shows") {
  const Devices joined =
      joined_devices({shown(0, kB, "00000000:02:00.0"), shown(1, kA, "00000000:01:00.0")}, {});
  REQUIRE(joined.size() == 2);
  CHECK(joined[0].uuid == std::string("GPU-") + kA);
  CHECK(joined[0].logical == 1);
  CHECK(joined[0].physical == 0);
  CHECK(joined[1].uuid == std::string("GPU-") + kB);
  CHECK(joined[1].logical == 0);
  CHECK(joined[1].physical == 1);
}

TEST_CASE("devices of CUDA and NVML are matched by UUID, in any order") {
  const Known all = {known(kA, "00000000:01:00.0"), known(kB, "00000000:02:00.0"),
                     known(kC, "00000000:03:00.0"), known(kD, "00000000:04:00.0")};
  const Devices joined =
      joined_devices({shown(0, kD, "00000000:04:00.0"), shown(1, kB, "00000000:02:00.0")},
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
      joined_devices({shown(0, kA, "00000000:09:00.0")}, {known(kA, "00000000:01:00.0")});
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].pci_bus_id == "00000000:09:00.0");
}

TEST_CASE("devices at one address with different UUIDs stay two") {
  const Devices joined =
      joined_devices({shown(0, kA, "00000000:01:00.0")}, {known(kB, "00000000:01:00.0")});
  REQUIRE(joined.size() == 2);
  CHECK_FALSE(joined[0].visible());
  CHECK(joined[0].uuid == std::string("GPU-") + kB);
  CHECK(joined[1].visible());
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
    const Devices joined = joined_devices({}, {known(kA, given)});
    REQUIRE(joined.size() == 1);
    CHECK(joined[0].pci_bus_id == expected);
  }
  const Devices ordered =
      joined_devices({}, {known(kA, "0001:01:00.0"), known(kB, "0000:ff:00.0"),
                          known(kC, "0000:0a:00.0"), known(kD, "0000:0A:00.1")});
  REQUIRE(ordered.size() == 4);
  CHECK(ordered[0].uuid == std::string("GPU-") + kC);
  CHECK(ordered[1].uuid == std::string("GPU-") + kD);
  CHECK(ordered[2].uuid == std::string("GPU-") + kB);
  CHECK(ordered[3].uuid == std::string("GPU-") + kA);
}

TEST_CASE("two devices with the same UUID remain two") {
  const Devices joined =
      joined_devices({shown(0, kA, "00000000:01:00.0"), shown(1, kA, "00000000:02:00.0")},
                     {known(kA, "0000:01:00.0")});
  REQUIRE(joined.size() == 2);
  CHECK(joined[0].logical == 0);
  CHECK(joined[1].logical == 1);
  CHECK(joined_devices({shown(0, kA, ""), shown(1, kA, "")}, {}).size() == 2);
}

TEST_CASE("a device without a UUID on one side is matched by its address") {
  Known unread = {known(kA, "0000:01:00.0")};
  unread[0].uuid.clear();
  const Devices joined = joined_devices({shown(0, kB, "00000000:01:00.0")}, unread);
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].logical == 0);
  CHECK(joined[0].uuid == std::string("GPU-") + kB);

  ShownDevice refused = shown(0, kA, "00000000:01:00.0");
  refused.uuid.reset();
  const Devices other = joined_devices({refused}, {known(kB, "0000:01:00.0")});
  REQUIRE(other.size() == 1);
  CHECK(other[0].logical == 0);
  CHECK(other[0].uuid == std::string("GPU-") + kB);
}

TEST_CASE("facts that CUDA refuses are taken from NVML") {
  ShownDevice refused = shown(0, kA, "");
  refused.name.clear();
  refused.memory_bytes = 0;
  const Devices joined = joined_devices({refused}, {known(kA, "0000:01:00.0")});
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].logical == 0);
  CHECK(joined[0].name == "known to NVML");
  CHECK(joined[0].memory_bytes == 16_GiB);
  CHECK(joined[0].pci_bus_id == "00000000:01:00.0");
}

TEST_CASE("an instance that CUDA shows is found in its device, with its own memory") {
  const DeviceList list =
      join_devices({shown(0, kD, "00000000:02:00.0"), shown(1, kA, "00000000:01:00.0")},
                   {split(known(kB, "0000:02:00.0"), {kC, kD}), known(kA, "0000:01:00.0")});
  REQUIRE(list.devices.size() == 2);
  CHECK(list.devices[0].logical == 1);
  CHECK_FALSE(list.devices[0].mig_mode);
  CHECK(list.devices[1].mig_mode);
  CHECK_FALSE(list.devices[1].visible());
  CHECK(list.devices[1].memory_bytes == 16_GiB);
  REQUIRE(list.instances.size() == 2);
  CHECK_FALSE(list.instances[0].visible());
  CHECK(list.instances[0].memory_bytes == 2_GiB);
  CHECK(list.instances[0].name == "known instance");
  CHECK(list.instances[1].uuid == std::string("MIG-") + kD);
  CHECK(list.instances[1].logical == 0);
  CHECK(list.instances[1].memory_bytes == 8_GiB);
  CHECK(list.instances[1].pci_bus_id == "00000000:02:00.0");
  for (const DeviceInfo& instance : list.instances) CHECK(instance.physical == 1);
  CHECK(list.instances[1].mig_instance.value().gpu_instance == 1);
  CHECK(list.instances[1].mig_instance.value().compute_instance == 0);
}

TEST_CASE("an instance that NVML does not know belongs to the split device at its address") {
  const DeviceList list =
      join_devices({shown(0, kD, "00000000:02:00.0")}, {split(known(kB, "0000:02:00.0"), {kC})});
  REQUIRE(list.devices.size() == 1);
  REQUIRE(list.instances.size() == 2);
  CHECK(list.instances[1].logical == 0);
  CHECK(list.instances[1].uuid == std::string("MIG-") + kD);
  CHECK(list.instances[1].mig_instance.value().gpu_instance == -1);
}

TEST_CASE("without information about MIG, another UUID at a known address is that of an instance") {
  Known from_proc = {known(kA, "0000:01:00.0")};
  from_proc[0].mig_mode.reset();
  const DeviceList list = join_devices({shown(0, kB, "00000000:01:00.0")}, from_proc);
  REQUIRE(list.devices.size() == 1);
  CHECK(list.devices[0].mig_mode);
  CHECK_FALSE(list.devices[0].visible());
  REQUIRE(list.instances.size() == 1);
  CHECK(list.instances[0].uuid == std::string("MIG-") + kB);
  CHECK(list.instances[0].memory_bytes == 8_GiB);
}

TEST_CASE("without another source instances are recognized by CUDA's name and share a device") {
  ShownDevice one = shown(0, kA, "00000000:01:00.0");
  one.name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb";
  ShownDevice two = shown(1, kB, "00000000:01:00.0");
  two.name = "NVIDIA A100-SXM4-40GB MIG 2g.10gb";
  const DeviceList list = join_devices({one, two}, {});
  REQUIRE(list.devices.size() == 1);
  CHECK(list.devices[0].name == "NVIDIA A100-SXM4-40GB");
  CHECK(list.devices[0].memory_bytes == 0);
  CHECK(list.devices[0].uuid.empty());
  CHECK(list.devices[0].pci_bus_id == "00000000:01:00.0");
  REQUIRE(list.instances.size() == 2);
  CHECK(list.instances[0].uuid == std::string("MIG-") + kA);
  CHECK(list.instances[1].logical == 1);
}

TEST_CASE("facts of CUDA and NVML are merged for each device") {
  const ScopedEnvironment visible("CUDA_VISIBLE_DEVICES", "2,0");
  sim::Config config;
  config.devices = 3;
  config.memory = {4_GiB, 5_GiB, 6_GiB};
  sim::Simulator simulator(config);
  DriverTap tap;
  const Driver driver(tap.source(), {});
  const Nvml nvml(tap.source());
  const std::vector<ShownDevice> seen = read_shown_devices(driver);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].ordinal == 0);
  CHECK(seen[0].memory_bytes == 6_GiB);
  CHECK(seen[1].ordinal == 1);
  CHECK(seen[1].memory_bytes == 4_GiB);
  const Known all = nvml.devices();
  REQUIRE(all.size() == 3);
  CHECK(device_uuid_text(seen[0].uuid.value()) == all[2].uuid);
  CHECK(seen[0].pci_bus_id == all[2].pci_bus_id);
  CHECK(device_uuid_text(seen[1].uuid.value()) == all[0].uuid);
  CHECK(joined_devices(seen, all).size() == 3);
  CHECK(simulator.live().contexts == 0);
}

TEST_CASE("facts that the driver refuses are unknown, and the device stays listed") {
  sim::Simulator simulator("devices=2");
  DriverTap tap;
  const Driver driver(tap.source(), {});
  const Nvml nvml(tap.source());
  for (const DriverCall call : {DriverCall::device_get_uuid, DriverCall::device_get_pci_bus_id,
                                DriverCall::device_get_name, DriverCall::device_total_mem}) {
    tap.refuse(call, CUDA_ERROR_UNKNOWN, 2);
    const std::vector<ShownDevice> seen = read_shown_devices(driver);
    REQUIRE(seen.size() == 2);
    const Devices joined = joined_devices(seen, nvml.devices());
    REQUIRE(joined.size() == 2);
    CHECK(joined[0].logical == 0);
    CHECK(joined[1].logical == 1);
    CHECK(joined[1].memory_bytes == 80_GiB);
  }
}

TEST_CASE("a driver that is not usable shows no devices") {
  const Driver driver(DriverSource{}, {});
  CHECK(read_shown_devices(driver).empty());
}

TEST_CASE("two CUDA devices at one address without UUIDs remain two") {
  ShownDevice first = shown(0, kA, "00000000:01:00.0");
  ShownDevice second = shown(1, kB, "00000000:01:00.0");
  first.uuid.reset();
  second.uuid.reset();
  const DeviceList list = join_devices({first, second}, {});
  REQUIRE(list.devices.size() == 2);
  CHECK(list.devices[0].logical == 0);
  CHECK(list.devices[1].logical == 1);
}

}  // namespace physical_devices_test
