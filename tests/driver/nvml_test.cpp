// SPDX-License-Identifier: Apache-2.0
// Facts of devices if NVML is incomplete or a device has fallen off the bus.
#include "driver/nvml.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "sim/simulator.hpp"
#include "support/errors.hpp"
#include "support/nvml_tap.hpp"

namespace nvml_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr nvml::Return kUnknownError = 999;

struct Fixture {
  sim::Simulator simulator{"devices=3,memory=8GiB,name=Some GPU,mig=1:2/2:0"};
  NvmlTap tap;
};

std::vector<std::string> required_functions() {
  std::vector<std::string> names;
  constexpr bool required = true;
  constexpr bool optional = false;
#define BERTH_ADD(member, symbol, type, need) \
  if (need) names.push_back(#symbol);
  BERTH_NVML_FUNCTIONS(BERTH_ADD)
#undef BERTH_ADD
  static_cast<void>(optional);
  return names;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "NVML describes every device and its instances") {
  const Nvml nvml(tap.source());
  const std::vector<KnownDevice> devices = nvml.devices();
  REQUIRE(devices.size() == 3);
  CHECK(devices[0].mig_mode == false);
  CHECK(devices[0].instances.empty());
  CHECK(devices[0].memory_bytes == 8_GiB);
  CHECK(devices[1].mig_mode == true);
  REQUIRE(devices[1].instances.size() == 2);
  CHECK(devices[1].instances[1].uuid.starts_with("MIG-"));
  CHECK(devices[1].instances[1].gpu_instance == 2);
  CHECK(devices[1].instances[1].compute_instance == 0);
  CHECK(devices[1].instances[1].memory_bytes == 4_GiB);
  CHECK(devices[1].instances[1].name == "Some GPU MIG 3g.4gb");
  CHECK(devices[2].mig_mode == true);
  CHECK(devices[2].instances.empty());
}

TEST_CASE_FIXTURE(Fixture,
                  "NVML without a required function counts as absent, and the function is named") {
  for (const std::string& name : required_functions()) {
    CAPTURE(name);
    const DriverSource whole = tap.source();
    const DriverSource source{.name = "sim",
                              .resolve =
                                  [&](const char* symbol, int version) {
                                    return symbol == name ? nullptr
                                                          : whole.resolve(symbol, version);
                                  },
                              .problem = {},
                              .library = {}};
    const Nvml nvml(source);
    CHECK_FALSE(nvml.usable());
    CHECK(contains(nvml.problem(), name));
    CHECK(nvml.devices().empty());
  }
}

TEST_CASE_FIXTURE(Fixture, "an older NVML without MIG lists the devices") {
  tap.hide("nvmlDeviceGetMigMode");
  const Nvml nvml(tap.source());
  const std::vector<KnownDevice> devices = nvml.devices();
  REQUIRE(devices.size() == 3);
  CHECK_FALSE(devices[1].mig_mode.has_value());
  CHECK(devices[1].instances.empty());
}

TEST_CASE_FIXTURE(Fixture, "a device without MIG is not in MIG mode") {
  const Nvml nvml(tap.source());
  tap.refuse("nvmlDeviceGetMigMode", nvml::kNotSupported);
  CHECK(nvml.devices().at(1).mig_mode == false);
  tap.refuse("nvmlDeviceGetMigMode", kUnknownError);
  CHECK_FALSE(nvml.devices().at(1).mig_mode.has_value());
}

TEST_CASE_FIXTURE(Fixture, "a fact that NVML refuses is unknown, and the others are known") {
  const Nvml nvml(tap.source());
  for (const char* name : {"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetPciInfo_v3",
                           "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMigMode",
                           "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
                           "nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId"}) {
    CAPTURE(name);
    tap.refuse(name, kUnknownError);
    const std::vector<KnownDevice> devices = nvml.devices();
    REQUIRE(devices.size() == 3);
    const KnownDevice& device = devices[1];
    const std::string refused = name;
    CHECK(device.uuid.empty() == (refused == "nvmlDeviceGetUUID"));
    CHECK(device.name.empty() == (refused == "nvmlDeviceGetName"));
    CHECK(device.pci_bus_id.empty() == (refused == "nvmlDeviceGetPciInfo_v3"));
    CHECK((device.memory_bytes == 0) == (refused == "nvmlDeviceGetMemoryInfo"));
    CHECK_FALSE(device.lost);
    for (const KnownInstance& instance : device.instances) {
      CHECK(instance.gpu_instance.has_value() == (refused != "nvmlDeviceGetGpuInstanceId"));
      CHECK(instance.compute_instance.has_value() == (refused != "nvmlDeviceGetComputeInstanceId"));
    }
    tap.allow_all();
    CHECK(nvml.devices().at(1).instances.size() == 2);
  }
}

TEST_CASE_FIXTURE(Fixture, "a device that has fallen off the bus is reported as lost") {
  const Nvml nvml(tap.source());
  tap.refuse("nvmlDeviceGetMemoryInfo", nvml::kGpuIsLost);
  for (const KnownDevice& device : nvml.devices()) {
    CHECK(device.lost);
    CHECK(device.memory_bytes == 0);
    CHECK_FALSE(device.uuid.empty());
  }
}

TEST_CASE_FIXTURE(Fixture, "a device without any facts is omitted") {
  const Nvml nvml(tap.source());
  tap.refuse("nvmlDeviceGetUUID", nvml::kGpuIsLost);
  tap.refuse("nvmlDeviceGetPciInfo_v3", nvml::kGpuIsLost);
  CHECK(nvml.devices().empty());
  tap.allow_all();
  tap.refuse("nvmlDeviceGetHandleByIndex_v2", nvml::kGpuIsLost);
  CHECK(nvml.devices().empty());
  tap.allow_all();
  tap.refuse("nvmlDeviceGetCount_v2", kUnknownError);
  CHECK(nvml.devices().empty());
  tap.allow_all();
  CHECK(nvml.devices().size() == 3);
}

TEST_CASE_FIXTURE(Fixture, "an NVML that does not initialize is unusable, and reports the code") {
  tap.refuse("nvmlInit_v2", 9);
  const Nvml nvml(tap.source());
  CHECK_FALSE(nvml.usable());
  CHECK(contains(nvml.problem(), "9"));
}

}  // namespace nvml_test
