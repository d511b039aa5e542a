// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <set>
#include <string>

#include "sim/sim_fixture.hpp"
#include "support/environment.hpp"

namespace device_test {

using namespace berth;
using namespace berth::test;

namespace {

int attribute(CUdevice_attribute attribute, CUdevice device = 0) {
  int value = -1;
  OK(CU(cuDeviceGetAttribute)(&value, attribute, device));
  return value;
}

std::string pci_bus_id(CUdevice device) {
  char text[32];
  OK(CU(cuDeviceGetPCIBusId)(text, sizeof(text), device));
  return text;
}

std::string uuid(CUdevice device) {
  CUuuid bytes;
  OK(CU(cuDeviceGetUuid)(&bytes, device));
  return {bytes.bytes, sizeof(bytes.bytes)};
}

/// The UUID of a device in text, by way of NVML, which sees all.
std::string uuid_text(unsigned index) {
  REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess);
  nvml::Device device = nullptr;
  char text[nvml::kTextBytes];
  REQUIRE(CU(nvmlDeviceGetHandleByIndex_v2)(index, &device) == nvml::kSuccess);
  REQUIRE(CU(nvmlDeviceGetUUID)(device, text, sizeof(text)) == nvml::kSuccess);
  REQUIRE(CU(nvmlShutdown)() == nvml::kSuccess);
  return text;
}

/// The PCI addresses that CUDA lists under an environment.
std::vector<std::string> listed(const std::optional<std::string>& visible, const char* config,
                                const std::optional<std::string>& order = std::nullopt) {
  const ScopedEnvironment visible_devices("CUDA_VISIBLE_DEVICES", visible);
  const ScopedEnvironment device_order("CUDA_DEVICE_ORDER", order);
  const sim::Simulator sim(config);
  std::vector<std::string> addresses;
  if (CU(cuInit)(0) != CUDA_SUCCESS) return addresses;
  int count = 0;
  OK(CU(cuDeviceGetCount)(&count));
  for (int device = 0; device < count; ++device) addresses.push_back(pci_bus_id(device));
  return addresses;
}

using Addresses = std::vector<std::string>;

}  // namespace

TEST_CASE("before cuInit every call that needs the driver is rejected") {
  const sim::Simulator sim("");
  int value = 0;
  CUcontext context = nullptr;
  CUdeviceptr pointer = 0;
  CHECK(CU(cuDeviceGetCount)(&value) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(CU(cuDeviceGet)(&value, 0) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(CU(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(CU(cuCtxGetCurrent)(&context) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(CU(cuMemAlloc)(&pointer, 512) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(CU(cuEventQuery)(nullptr) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(CU(cuMemRelease)(0) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(CU(cuDriverGetVersion)(&value) == CUDA_SUCCESS);
}

TEST_CASE("cuInit takes no flags and may be called again") {
  const sim::Simulator sim("");
  CHECK(CU(cuInit)(1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuInit)(0) == CUDA_SUCCESS);
  CHECK(CU(cuInit)(0) == CUDA_SUCCESS);
}

TEST_CASE("the driver version is the configured one") {
  const sim::Simulator sim("driver_version=12080");
  int version = 0;
  CHECK(CU(cuDriverGetVersion)(&version) == CUDA_SUCCESS);
  CHECK(version == 12080);
  CHECK(CU(cuDriverGetVersion)(nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("there are as many devices as configured, all different") {
  const ScopedEnvironment all("CUDA_VISIBLE_DEVICES", std::nullopt);
  const sim::Simulator sim("devices=64,memory=1GiB");
  OK(CU(cuInit)(0));
  int count = 0;
  OK(CU(cuDeviceGetCount)(&count));
  CHECK(count == 64);
  std::set<std::string> uuids;
  std::set<std::string> addresses;
  for (CUdevice device = 0; device < 64; ++device) {
    uuids.insert(uuid(device));
    addresses.insert(pci_bus_id(device));
  }
  CHECK(uuids.size() == 64);
  CHECK(addresses.size() == 64);
}

TEST_CASE("devices are the same from one simulator to the next") {
  std::string before;
  for (int round = 0; round < 2; ++round) {
    const sim::Simulator sim("");
    OK(CU(cuInit)(0));
    if (round == 0) before = uuid(0);
    CHECK(uuid(0) == before);
  }
}

TEST_CASE("an ordinal without a device is an invalid device") {
  const sim::Simulator sim("devices=2");
  OK(CU(cuInit)(0));
  int value = 0;
  char text[64];
  CUuuid bytes;
  std::size_t size = 0;
  CUcontext context = nullptr;
  unsigned flags = 0;
  for (const int device : {-1, 2, 1 << 30, -(1 << 30)}) {
    CAPTURE(device);
    CHECK(CU(cuDeviceGet)(&value, device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(CU(cuDeviceGetName)(text, 64, device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(CU(cuDeviceGetUuid)(&bytes, device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(CU(cuDeviceGetPCIBusId)(text, 64, device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(CU(cuDeviceTotalMem)(&size, device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device) ==
          CUDA_ERROR_INVALID_DEVICE);
    CHECK(CU(cuDeviceCanAccessPeer)(&value, device, 0) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(CU(cuDeviceCanAccessPeer)(&value, 0, device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(CU(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(CU(cuDevicePrimaryCtxRelease)(device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(CU(cuDevicePrimaryCtxGetState)(device, &flags, &value) == CUDA_ERROR_INVALID_DEVICE);
  }
}

TEST_CASE("null results are refused") {
  const sim::Simulator sim("");
  OK(CU(cuInit)(0));
  int value = 0;
  CHECK(CU(cuDeviceGetCount)(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGet)(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGetName)(nullptr, 9, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGetUuid)(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGetPCIBusId)(nullptr, 64, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceTotalMem)(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGetAttribute)(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceCanAccessPeer)(nullptr, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDevicePrimaryCtxRetain)(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDevicePrimaryCtxGetState)(0, nullptr, &value) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a name is shortened to the caller's buffer, a PCI address is not") {
  const sim::Simulator sim("name=Some GPU");
  OK(CU(cuInit)(0));
  char text[32];
  CHECK(CU(cuDeviceGetName)(text, sizeof(text), 0) == CUDA_SUCCESS);
  CHECK(std::string(text) == "Some GPU");
  CHECK(CU(cuDeviceGetName)(text, 5, 0) == CUDA_SUCCESS);
  CHECK(std::string(text) == "Some");
  CHECK(CU(cuDeviceGetName)(text, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGetPCIBusId)(text, 13, 0) == CUDA_SUCCESS);
  CHECK(std::string(text) == "0000:1A:00.0");
  CHECK(CU(cuDeviceGetPCIBusId)(text, 12, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGetPCIBusId)(text, -1, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("attributes agree with the configuration and with each other") {
  const sim::Simulator sim("devices=2,vmm=off,memory=3GiB/5GiB");
  OK(CU(cuInit)(0));
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 9);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 1);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1) == 0x1b);
  CHECK(pci_bus_id(1) == "0000:1B:00.0");
  std::size_t bytes = 0;
  OK(CU(cuDeviceTotalMem)(&bytes, 1));
  CHECK(bytes == 5ULL << 30);
  int value = 0;
  CHECK(CU(cuDeviceGetAttribute)(&value, static_cast<CUdevice_attribute>(250), 0) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("peer access is as configured, and never to the own device") {
  int can = -1;
  {
    const sim::Simulator sim("devices=2");
    OK(CU(cuInit)(0));
    OK(CU(cuDeviceCanAccessPeer)(&can, 0, 1));
    CHECK(can == 1);
    OK(CU(cuDeviceCanAccessPeer)(&can, 1, 1));
    CHECK(can == 0);
  }
  const sim::Simulator sim("devices=2,peer=off");
  OK(CU(cuInit)(0));
  OK(CU(cuDeviceCanAccessPeer)(&can, 0, 1));
  CHECK(can == 0);
}

TEST_CASE("CUDA_VISIBLE_DEVICES selects and orders the devices") {
  CHECK(listed("2,0", "devices=3") == Addresses{"0000:1C:00.0", "0000:1A:00.0"});
  CHECK(listed("0,7,1", "devices=3") == Addresses{"0000:1A:00.0"});
}

TEST_CASE("CUDA_VISIBLE_DEVICES takes a UUID or the beginning of one") {
  std::string second;
  {
    const ScopedEnvironment all("CUDA_VISIBLE_DEVICES", std::nullopt);
    const sim::Simulator sim("devices=3");
    second = uuid_text(1);
  }
  CHECK(second.size() == 40);
  CHECK(listed(second, "devices=3") == Addresses{"0000:1B:00.0"});
  CHECK(listed(second.substr(0, 12), "devices=3") == Addresses{"0000:1B:00.0"});
}

TEST_CASE("without a visible device cuInit fails, and the driver stays uninitialized") {
  const ScopedEnvironment none("CUDA_VISIBLE_DEVICES", "");
  const sim::Simulator sim("devices=3");
  int count = 0;
  CHECK(CU(cuInit)(0) == CUDA_ERROR_NO_DEVICE);
  CHECK(CU(cuDeviceGetCount)(&count) == CUDA_ERROR_NOT_INITIALIZED);
}

TEST_CASE("CUDA's order may differ from PCI order, unless CUDA_DEVICE_ORDER requests it") {
  const Addresses by_address = {"0000:1A:00.0", "0000:1B:00.0"};
  const Addresses reversed = {"0000:1B:00.0", "0000:1A:00.0"};
  CHECK(listed(std::nullopt, "devices=2") == by_address);
  CHECK(listed(std::nullopt, "devices=2,order=reverse") == reversed);
  CHECK(listed(std::nullopt, "devices=2,order=reverse", "FASTEST_FIRST") == reversed);
  CHECK(listed(std::nullopt, "devices=2,order=reverse", "PCI_BUS_ID") == by_address);
  CHECK(listed("0", "devices=2,order=reverse") == Addresses{"0000:1B:00.0"});
}

TEST_CASE("without an installed simulator cuInit makes the one that BERTH_SIM describes") {
  const ScopedEnvironment all("CUDA_VISIBLE_DEVICES", std::nullopt);
  {
    const ScopedEnvironment malformed("BERTH_SIM", "devices=none");
    CHECK(CU(cuInit)(0) == CUDA_ERROR_INVALID_VALUE);
    const std::string problem = CU(berthSimConfigurationError)();
    CHECK(problem.find("BERTH_SIM") != std::string::npos);
    CHECK(problem.find("devices=\"none\"") != std::string::npos);
  }
  {
    const ScopedEnvironment well_formed("BERTH_SIM", "devices=5,memory=1GiB");
    CHECK(CU(cuInit)(0) == CUDA_SUCCESS);
    CHECK(std::string(CU(berthSimConfigurationError)()).empty());
  }
  int count = 0;
  OK(CU(cuDeviceGetCount)(&count));
  CHECK(count == 5);
  // A test's own simulator takes its place, and leaves none.
  {
    const sim::Simulator sim("devices=2");
    OK(CU(cuInit)(0));
    OK(CU(cuDeviceGetCount)(&count));
    CHECK(count == 2);
  }
  CHECK(CU(cuDeviceGetCount)(&count) == CUDA_ERROR_NOT_INITIALIZED);
}

TEST_CASE("a simulator refuses a configuration that is out of range") {
  sim::Config config;
  config.devices = 65;
  CHECK_THROWS(sim::Simulator(config));
}

TEST_CASE("the driver version is the configured one before cuInit") {
  const ScopedEnvironment config("BERTH_SIM", "driver_version=12040");
  int version = 0;
  CHECK(CU(cuDriverGetVersion)(&version) == CUDA_SUCCESS);
  CHECK(version == 12040);
}

TEST_CASE_FIXTURE(EagerFixture, "modules are loaded lazily unless the environment says otherwise") {
  auto mode = static_cast<CUmoduleLoadingMode>(0);
  {
    const ScopedEnvironment lazily("CUDA_MODULE_LOADING", "LAZY");
    CHECK(CU(cuModuleGetLoadingMode)(&mode) == CUDA_SUCCESS);
    CHECK(mode == CU_MODULE_LAZY_LOADING);
  }
  const ScopedEnvironment eagerly("CUDA_MODULE_LOADING", "EAGER");
  CHECK(CU(cuModuleGetLoadingMode)(&mode) == CUDA_SUCCESS);
  CHECK(mode == CU_MODULE_EAGER_LOADING);
}

}  // namespace device_test
