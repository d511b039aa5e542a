// SPDX-License-Identifier: Apache-2.0
#include "device/proc_devices.hpp"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "berth/device_registry.hpp"

#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "sim/simulator.hpp"
#include "support/driver_tap.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

namespace proc_devices_test {

using namespace berth;
using namespace berth::test;

namespace {

/// A stand-in of /proc/driver/nvidia/gpus.
class ProcFolder {
 public:
  void add(const std::string& folder, const std::string& information) {
    std::filesystem::create_directories(folder_.path() / folder);
    std::ofstream(folder_.path() / folder / "information") << information;
  }
  [[nodiscard]] std::string path() const { return folder_.path().string(); }

 private:
  TemporaryFolder folder_;
};

std::string information(const std::string& uuid, const std::string& address) {
  return "Model: \t\t NVIDIA H100 80GB HBM3\n"
         "IRQ:   \t\t 10\n"
         "GPU UUID: \t " +
         uuid +
         "\n"
         "Video BIOS: \t 96.00.99.00.01\n"
         "Bus Type: \t PCIe\n"
         "Bus Location: \t " +
         address +
         "\n"
         "Device Minor: \t 5\n";
}

constexpr const char* kUuid = "GPU-9221d5d1-b60b-a624-bf14-0a1819cfda3b";

}  // namespace

TEST_CASE("a device is read from its information file") {
  ProcFolder proc;
  proc.add("0000:62:00.0", information(kUuid, "0000:62:00.0"));
  const std::vector<KnownDevice> devices = read_proc_devices(proc.path());
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].uuid == kUuid);
  CHECK(devices[0].pci_bus_id == "0000:62:00.0");
  CHECK(devices[0].name == "NVIDIA H100 80GB HBM3");
  CHECK(devices[0].memory_bytes == 0);
  CHECK_FALSE(devices[0].mig_mode.has_value());
}

TEST_CASE("devices are in the order of their addresses, domains included") {
  ProcFolder proc;
  for (const char* address : {"0000:c1:00.0", "0001:02:00.0", "0000:1a:00.0", "0000:1A:01.0"})
    proc.add(address, information(kUuid, address));
  std::vector<std::string> addresses;
  for (const KnownDevice& device : read_proc_devices(proc.path()))
    addresses.push_back(device.pci_bus_id);
  CHECK(addresses ==
        std::vector<std::string>{"0000:1a:00.0", "0000:1A:01.0", "0000:c1:00.0", "0001:02:00.0"});
}

TEST_CASE("an unread UUID is unknown, and the address is taken from the folder's name") {
  ProcFolder proc;
  proc.add("0000:62:00.0",
           information("GPU-\?\?\?\?\?\?\?\?-\?\?\?\?-\?\?\?\?-\?\?\?\?-\?\?\?\?\?\?\?\?\?\?\?\?",
                       "nowhere"));
  const std::vector<KnownDevice> devices = read_proc_devices(proc.path());
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].uuid.empty());
  CHECK(devices[0].pci_bus_id == "0000:62:00.0");
}

TEST_CASE("folders and files that describe no device are ignored") {
  ProcFolder proc;
  proc.add("not a device", "Model: nothing\nno colon\n: no key\n\n");
  proc.add("0000:02:00.0", std::string("\0\xff\n:\n", 5));
  std::filesystem::create_directories(proc.path() + "/0000:03:00.0");
  const std::vector<KnownDevice> devices = read_proc_devices(proc.path());
  REQUIRE(devices.size() == 1);
  CHECK(devices[0].pci_bus_id == "0000:02:00.0");
  CHECK(devices[0].name.empty());
  CHECK(read_proc_devices("/nonexistent/gpus").empty());
  CHECK(read_proc_devices(proc.path() + "/0000:02:00.0/information").empty());
}

TEST_CASE("without NVML the registry finds hidden devices and their problem in /proc") {
  const ScopedEnvironment visible("CUDA_VISIBLE_DEVICES", "1,x");
  const sim::Simulator simulator("devices=2,memory=4GiB");
  const DriverTap tap;
  const Driver driver(tap.source(), {});
  std::vector<KnownDevice> known;
  {
    const Nvml nvml(tap.source());
    known = nvml.devices();
  }
  ProcFolder proc;
  for (const KnownDevice& device : known)
    proc.add(device.pci_bus_id, information(device.uuid, device.pci_bus_id));

  const Nvml none(DriverSource{});
  const DeviceRegistry registry(driver, none, proc.path());
  REQUIRE(registry.physical_devices().size() == 2);
  CHECK_FALSE(registry.physical_devices()[0].visible());
  CHECK(registry.physical_devices()[0].name == "NVIDIA H100 80GB HBM3");
  CHECK(registry.physical_devices()[0].memory_bytes == 0);
  CHECK(registry.physical_devices()[1].logical == 0);
  CHECK(registry.physical_devices()[1].memory_bytes == 4_GiB);
  CHECK(contains(registry.visibility_problem(), "\"x\""));
}

TEST_CASE("without NVML and /proc the list has the devices that CUDA shows") {
  const ScopedEnvironment visible("CUDA_VISIBLE_DEVICES", "1,x");
  const sim::Simulator simulator("devices=2");
  const DriverTap tap;
  const Driver driver(tap.source(), {});
  const Nvml none(DriverSource{});
  const DeviceRegistry registry(driver, none, "/nonexistent/gpus");
  CHECK(registry.count() == 1);
  CHECK(registry.physical_devices().size() == 1);
  CHECK(registry.visibility_problem().empty());
}

}  // namespace proc_devices_test
