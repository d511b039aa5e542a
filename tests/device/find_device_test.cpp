// SPDX-License-Identifier: Apache-2.0
// The device of a UUID: the same one however the process counts, or an error that says where it is.
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "berth/device_pick.hpp"
#include "berth/device_registry.hpp"

#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "support/driver_tap.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/nvml_tap.hpp"
#include "support/simulation.hpp"

namespace find_device_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";
constexpr const char* kSplit = "devices=3,memory=8GiB,mig=1:2";

struct Machine {
  explicit Machine(const std::optional<std::string>& visible, const char* text = kSplit)
      : environment(kVariable, visible), simulation(sim::Config::parse(text)) {}

  [[nodiscard]] const DeviceRegistry& devices() const { return simulation.runtime->devices(); }
  [[nodiscard]] Device find(std::string_view uuid) const { return find_device(devices(), uuid); }
  [[nodiscard]] std::string refusal(std::string_view uuid) const {
    return message_of<InvalidArgument>([&] { return find(uuid); });
  }

  ScopedEnvironment environment;
  Simulation simulation;
};

std::string device_uuid(const DeviceRegistry& devices, std::size_t physical) {
  return devices.physical_devices().at(physical).uuid;
}

std::string instance_uuid(const DeviceRegistry& devices, std::size_t index) {
  return devices.mig_instances().at(index).uuid;
}

}  // namespace

TEST_CASE("a UUID names the same device however CUDA_VISIBLE_DEVICES counts") {
  std::string first;
  std::string last;
  {
    const Machine before(std::nullopt);
    first = device_uuid(before.devices(), 0);
    last = device_uuid(before.devices(), 2);
    CHECK(before.find(first) == Device::cuda(0));
    CHECK(before.find(last) == Device::cuda(3));
  }
  const Machine turned("2,0");
  CHECK(turned.find(first) == Device::cuda(1));
  CHECK(turned.find(last) == Device::cuda(0));
}

TEST_CASE("if the variable hides every device, errors name it") {
  const std::string hidden = "CUDA_VISIBLE_DEVICES is empty, which hides every device";
  const Machine machine("");
  CHECK(contains(machine.refusal("GPU-0"), "there are no CUDA devices; " + hidden));
  CHECK(contains(
      message_of<InvalidArgument>([&] { return machine.devices().resolve(Device::cuda(0)); }),
      hidden));
}

TEST_CASE("a unique prefix of a UUID finds the device") {
  const Machine machine(std::nullopt, "devices=64");
  for (int ordinal = 0; ordinal < 64; ++ordinal) {
    const std::string uuid = machine.devices().info(Device::cuda(ordinal)).uuid;
    CHECK(machine.find(uuid) == Device::cuda(ordinal));
    CHECK(machine.find(uuid.substr(0, 12)) == Device::cuda(ordinal));
  }
  const std::string uuid = machine.devices().info(Device::cuda(0)).uuid;
  bool several = false;
  for (int ordinal = 1; ordinal < 64; ++ordinal)
    several |= machine.devices().info(Device::cuda(ordinal)).uuid[4] == uuid[4];
  REQUIRE(several);
  const std::string message = machine.refusal(uuid.substr(0, 5));
  CHECK(contains(message, "\"" + uuid.substr(0, 5) + "\" matches several devices: " + uuid));
}

TEST_CASE("an instance is found by its UUID and by the name format of older drivers") {
  const Machine machine(std::nullopt);
  const DeviceInfo second = machine.devices().mig_instances().at(1);
  const Device device = Device::cuda(second.logical.value());
  CHECK(machine.find(second.uuid) == device);
  CHECK(machine.find("MIG-" + device_uuid(machine.devices(), 1) + "/2/0") == device);
  CHECK(contains(machine.refusal("MIG-" + device_uuid(machine.devices(), 1) + "/3/0"),
                 "matches no device"));
}

TEST_CASE("a hidden device is reported with the reason") {
  {
    const Machine machine("0");
    const std::string hidden = device_uuid(machine.devices(), 2);
    CHECK(machine.refusal(hidden) ==
          "\"" + hidden +
              "\" exists, but is not visible to this process (Hidden: CUDA_VISIBLE_DEVICES=\"0\" "
              "does not "
              "name it); accepted: the UUID, or its beginning, of cuda:0 (" +
              device_uuid(machine.devices(), 0) + ")");
    CHECK(contains(machine.refusal(instance_uuid(machine.devices(), 0)),
                   "exists, but is not visible to this process"));
  }
  const Machine none("");
  CHECK(contains(none.refusal(device_uuid(none.devices(), 2)), "there are no CUDA devices"));
}

TEST_CASE("a split device is reported with its instances") {
  const Machine machine(std::nullopt);
  const DeviceRegistry& devices = machine.devices();
  CHECK(contains(machine.refusal(device_uuid(devices, 1)),
                 "is split by MIG and used as its instances: " + instance_uuid(devices, 0) + ", " +
                     instance_uuid(devices, 1)));
}

TEST_CASE("a lost device is not found, visible or hidden") {
  const sim::Simulator simulator("devices=2");
  const DriverTap tap;
  NvmlTap nvml_tap;
  const Driver driver(tap.source(), {});
  const Nvml nvml(nvml_tap.source());
  nvml_tap.refuse("nvmlDeviceGetMemoryInfo", nvml::kGpuIsLost);
  const DeviceRegistry registry(driver, nvml);
  const std::string uuid = registry.physical_devices().at(0).uuid;
  CHECK(contains(message_of<InvalidArgument>([&] { return find_device(registry, uuid); }),
                 "does not respond, NVML reports it as lost"));
}

TEST_CASE("text that is no UUID, or the UUID of no device, is refused with a list of the devices") {
  const Machine machine(std::nullopt, "devices=64");
  for (const char* text : {"", "GPU", "GPU-", "MIG-", "cuda:0", "0", "gpu-0", " GPU-0"}) {
    CAPTURE(text);
    CHECK(contains(machine.refusal(text), "is not the UUID of a device"));
  }
  const std::string message = machine.refusal("GPU-zzzz");
  CHECK(contains(message,
                 "\"GPU-zzzz\" matches no device; accepted: the UUID, or its beginning, of"));
  CHECK(contains(message, "cuda:7 (GPU-"));
  CHECK(contains(message, " and 56 more"));
  CHECK_FALSE(contains(message, "cuda:8"));
}

}  // namespace find_device_test
