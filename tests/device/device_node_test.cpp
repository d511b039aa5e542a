// SPDX-License-Identifier: Apache-2.0
// Devices whose file this process cannot open, as in a container, and how they are explained.
#include "device/device_node.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device_registry.hpp"

#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "sim/simulator.hpp"
#include "support/driver_tap.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

namespace device_node_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";

/// Two devices that NVML and the kernel driver know, of which the process is shown the second
/// alone.
struct Container {
  Container() {
    {
      const ScopedEnvironment at_start(kVariable, "1");
      driver.emplace(tap.source(), ReportSink{});
    }
    nvml.emplace(tap.source());
    const ScopedEnvironment none(kVariable, std::nullopt);
    const DeviceRegistry registry(*driver, *nvml);
    for (const DeviceInfo& info : registry.physical_devices())
      add(info.pci_bus_id, info.physical + 3);
  }

  /// As the folder of a device, in the short form of its address.
  void add(const std::string& pci_bus_id, int minor) {
    const auto folder = proc.path() / pci_bus_id.substr(4);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "information") << "Device Minor: \t " << minor << "\n";
  }
  void add_file(int minor, std::filesystem::perms mode = std::filesystem::perms::all) {
    const auto path = dev.path() / ("nvidia" + std::to_string(minor));
    std::ofstream(path) << "";
    std::filesystem::permissions(path, mode);
  }
  [[nodiscard]] std::string sentence(const std::optional<std::string>& visible) {
    const ScopedEnvironment variable(kVariable, visible);
    const DeviceRegistry registry(*driver, *nvml, proc.path().string(), dev.path().string());
    problem = registry.visibility_problem();
    return registry.explain().at(0).sentence;
  }

  TemporaryFolder proc;
  TemporaryFolder dev;
  sim::Simulator simulator{"devices=2"};
  DriverTap tap;
  std::optional<Driver> driver;
  std::optional<Nvml> nvml;
  std::string problem;
};

}  // namespace

TEST_CASE("a device without a file is reported as missing in the container") {
  Container container;
  container.add_file(4);
  const std::string missing = (container.dev.path() / "nvidia3").string();
  CHECK(container.sentence(std::nullopt) ==
        "Hidden: " + missing + " does not exist here: the container has other devices, or none.");
  CHECK(container.problem.empty());
  CHECK(contains(container.sentence("0,1"), "Hidden: " + missing + " does not exist here"));
  CHECK(contains(container.problem, "names 2 devices, but the driver shows 1: " + missing));
}

TEST_CASE("a device file without permission is reported, and an accessible one is not") {
  Container container;
  container.add_file(3);
  container.add_file(4);
  CHECK(contains(container.sentence(std::nullopt), "MPS server"));
  container.add_file(3, std::filesystem::perms::none);
  if (geteuid() == 0) {
    MESSAGE("skipped: root may open any file");
  } else {
    CHECK(contains(container.sentence(std::nullopt),
                   "Hidden: this user has no permission to read and write"));
  }
}

TEST_CASE("each error of open() is explained") {
  CHECK(describe_node_fault("/dev/nvidia0", 0).empty());
  CHECK(contains(describe_node_fault("/dev/nvidia0", EPERM), "device cgroup"));
  CHECK(contains(describe_node_fault("/dev/nvidia0", EACCES), "no permission"));
  CHECK(contains(describe_node_fault("/dev/nvidia0", ENOENT), "container"));
  CHECK(contains(describe_node_fault("/dev/nvidia0", ELOOP), "/dev/nvidia0 cannot be opened: "));
}

TEST_CASE("no cause is reported for a device whose file is unknown") {
  KnownDevice unnamed;
  unnamed.pci_bus_id = "0000:01:00.0";
  CHECK(find_node_fault({unnamed}, "00000000:01:00.0", "/nowhere").empty());
  CHECK(find_node_fault({}, "00000000:01:00.0", "/nowhere").empty());
}

TEST_CASE("each device has a file of its own") {
  const TemporaryFolder dev;
  KnownDevice first;
  first.pci_bus_id = "0000:01:00.0";
  first.minor_number = 0;
  KnownDevice second;
  second.pci_bus_id = "0000:02:00.0";
  second.minor_number = 1;
  std::ofstream(dev.path() / "nvidia0") << "";
  const auto fault = [&](const char* address) {
    return find_node_fault({first, second}, address, dev.path().string());
  };
  CHECK(fault("00000000:01:00.0").empty());
  CHECK(contains(fault("00000000:02:00.0"), "nvidia1 does not exist here"));
}

}  // namespace device_node_test
