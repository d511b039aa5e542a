// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "sim/nvml_fixture.hpp"
#include "support/environment.hpp"

namespace nvml_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("NVML lists every device in PCI order, independently of CUDA") {
  const ScopedEnvironment one("CUDA_VISIBLE_DEVICES", "1");
  const sim::Simulator sim("devices=3,order=reverse,name=Some GPU");
  OK(CU(cuInit)(0));
  REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess);
  unsigned count = 0;
  CHECK(CU(nvmlDeviceGetCount_v2)(&count) == nvml::kSuccess);
  CHECK(count == 3);
  for (unsigned index = 0; index < count; ++index) {
    nvml::PciInfo pci{};
    char name[nvml::kTextBytes];
    CHECK(CU(nvmlDeviceGetPciInfo_v3)(nvml_device(index), &pci) == nvml::kSuccess);
    CHECK(pci.bus == 0x1a + index);
    CHECK(std::string(pci.busId) ==
          "00000000:1" + std::string(1, static_cast<char>('A' + index)) + ":00.0");
    CHECK(std::string(pci.busIdLegacy) == std::string(pci.busId).substr(4));
    CHECK(CU(nvmlDeviceGetName)(nvml_device(index), name, sizeof(name)) == nvml::kSuccess);
    CHECK(std::string(name) == "Some GPU");
  }
}

TEST_CASE("NVML and CUDA agree on a device's UUID and memory") {
  const ScopedEnvironment all("CUDA_VISIBLE_DEVICES", std::nullopt);
  const EagerFixture fixture;
  REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess);
  CUuuid bytes;
  OK(CU(cuDeviceGetUuid)(&bytes, 0));
  char text[nvml::kTextBytes];
  CHECK(CU(nvmlDeviceGetUUID)(nvml_device(0), text, sizeof(text)) == nvml::kSuccess);
  char first_byte[3];
  snprintf(first_byte, sizeof(first_byte), "%02x", static_cast<unsigned char>(bytes.bytes[0]));
  CHECK(std::string(text).substr(0, 6) == std::string("GPU-") + first_byte);
  make_memory(16 << 20);
  nvml::Memory memory{};
  CHECK(CU(nvmlDeviceGetMemoryInfo)(nvml_device(0), &memory) == nvml::kSuccess);
  CHECK(memory.total == 1ULL << 30);
  CHECK(memory.used == 16ULL << 20);
  CHECK(memory.free + memory.used == memory.total);
}

TEST_CASE("NVML counts its initializations and shutdowns") {
  const sim::Simulator sim("");
  unsigned count = 0;
  CHECK(CU(nvmlShutdown)() == nvml::kUninitialized);
  CHECK(CU(nvmlDeviceGetCount_v2)(&count) == nvml::kUninitialized);
  REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess);
  REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess);
  const nvml::Device device = nvml_device(0);
  CHECK(CU(nvmlShutdown)() == nvml::kSuccess);
  CHECK(CU(nvmlDeviceGetCount_v2)(&count) == nvml::kSuccess);
  CHECK(CU(nvmlShutdown)() == nvml::kSuccess);
  nvml::Memory memory{};
  CHECK(CU(nvmlDeviceGetMemoryInfo)(device, &memory) == nvml::kUninitialized);
}

TEST_CASE("NVML refuses invalid devices and buffers that are too small") {
  const sim::Simulator sim("devices=2");
  REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess);
  nvml::Device device = nullptr;
  char text[nvml::kTextBytes];
  CHECK(CU(nvmlDeviceGetHandleByIndex_v2)(2, &device) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetHandleByIndex_v2)(0, nullptr) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetCount_v2)(nullptr) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetUUID)(nullptr, text, sizeof(text)) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetUUID)(reinterpret_cast<nvml::Device>(&device), text, sizeof(text)) ==
        nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetUUID)(nvml_device(0), text, 40) == nvml::kInsufficientSize);
  CHECK(CU(nvmlDeviceGetUUID)(nvml_device(0), text, 41) == nvml::kSuccess);
  CHECK(CU(nvmlDeviceGetUUID)(nvml_device(0), nullptr, 41) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetName)(nvml_device(0), text, 0) == nvml::kInsufficientSize);
  CHECK(CU(nvmlDeviceGetPciInfo_v3)(nvml_device(0), nullptr) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetMemoryInfo)(nvml_device(0), nullptr) == nvml::kInvalidArgument);
}

TEST_CASE_FIXTURE(NvmlFixture, "versions follow the simulated driver") {
  char text[nvml::kTextBytes];
  CHECK(CU(nvmlSystemGetDriverVersion)(text, sizeof(text)) == nvml::kSuccess);
  CHECK(std::string(text) == "580.00");
  CHECK(CU(nvmlSystemGetNVMLVersion)(text, sizeof(text)) == nvml::kSuccess);
  CHECK(std::string(text) == "13.580.00");
  CHECK(CU(nvmlSystemGetDriverVersion)(text, 6) == nvml::kInsufficientSize);
  CHECK(CU(nvmlSystemGetDriverVersion)(nullptr, 80) == nvml::kInvalidArgument);
  CHECK(CU(nvmlSystemGetCudaDriverVersion_v2)(nullptr) == nvml::kInvalidArgument);
}

TEST_CASE("an unlisted CUDA version has the driver branch of the previous one") {
  for (const auto& [cuda, branch] :
       {std::pair{"11040", "470.00"}, std::pair{"12070", "560.00"}, std::pair{"99990", "580.00"}}) {
    const NvmlFixture fixture(std::string("driver_version=") + cuda);
    char text[nvml::kTextBytes];
    CHECK(CU(nvmlSystemGetDriverVersion)(text, sizeof(text)) == nvml::kSuccess);
    CHECK(std::string(text) == branch);
    int version = 0;
    CHECK(CU(nvmlSystemGetCudaDriverVersion_v2)(&version) == nvml::kSuccess);
    CHECK(std::to_string(version) == cuda);
  }
}

TEST_CASE("NVML is initialized with known flags") {
  const sim::Simulator sim("");
  CHECK(CU(nvmlInitWithFlags)(4) == nvml::kInvalidArgument);
  CHECK(CU(nvmlShutdown)() == nvml::kUninitialized);
  CHECK(CU(nvmlInitWithFlags)(nvml::kInitNoGpus | nvml::kInitNoAttach) == nvml::kSuccess);
  CHECK(CU(nvmlShutdown)() == nvml::kSuccess);
}

TEST_CASE("every code has its own text") {
  const std::string unknown = CU(nvmlErrorString)(999);
  CHECK_FALSE(unknown.empty());
  CHECK(unknown == CU(nvmlErrorString)(-1));
  for (const nvml::Return code :
       {nvml::kSuccess, nvml::kUninitialized, nvml::kInvalidArgument, nvml::kNotSupported,
        nvml::kNotFound, nvml::kInsufficientSize, nvml::kDriverNotLoaded, nvml::kGpuIsLost,
        nvml::kArgumentVersionMismatch})
    CHECK(CU(nvmlErrorString)(code) != unknown);
}

TEST_CASE("a device has the facts that CUDA reports") {
  const ScopedEnvironment all("CUDA_VISIBLE_DEVICES", std::nullopt);
  const EagerFixture fixture;
  REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess);
  const auto attribute = [](CUdevice_attribute which) {
    int value = -1;
    OK(CU(cuDeviceGetAttribute)(&value, which, 0));
    return value;
  };
  int one = -1;
  int other = -1;
  CHECK(CU(nvmlDeviceGetCudaComputeCapability)(nvml_device(0), &one, &other) == nvml::kSuccess);
  CHECK(one == attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  CHECK(other == attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  CHECK(CU(nvmlDeviceGetComputeMode)(nvml_device(0), &one) == nvml::kSuccess);
  CHECK(one == attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE));
  CHECK(CU(nvmlDeviceGetEccMode)(nvml_device(0), &one, &other) == nvml::kSuccess);
  CHECK(one == attribute(CU_DEVICE_ATTRIBUTE_ECC_ENABLED));
  CHECK(other == one);
  CHECK(CU(nvmlDeviceGetPersistenceMode)(nvml_device(0), &one) == nvml::kSuccess);
  CHECK(one == 0);
  CHECK(CU(nvmlDeviceGetCudaComputeCapability)(nvml_device(0), &one, nullptr) ==
        nvml::kInvalidArgument);
}

TEST_CASE("no device belongs to a fabric") {
  const NvmlFixture fixture("devices=1");
  for (const unsigned version : {nvml::kGpuFabricInfoV2Version, nvml::kGpuFabricInfoV3Version}) {
    nvml::GpuFabricInfo info{};
    info.version = version;
    info.state = 7;
    info.healthSummary = 7;
    CHECK(CU(nvmlDeviceGetGpuFabricInfoV)(nvml_device(0), &info) == nvml::kSuccess);
    CHECK(info.version == version);
    CHECK(info.state == nvml::kFabricNotSupported);
    CHECK(info.healthSummary == (version == nvml::kGpuFabricInfoV2Version ? 7 : 0));
  }
  nvml::GpuFabricInfo info{};
  CHECK(CU(nvmlDeviceGetGpuFabricInfoV)(nvml_device(0), &info) == nvml::kArgumentVersionMismatch);
  CHECK(CU(nvmlDeviceGetGpuFabricInfoV)(nvml_device(0), nullptr) == nvml::kInvalidArgument);
}

TEST_CASE("NVML and CUDA agree on peer access") {
  for (const char* config : {"devices=2,peer=on", "devices=2,peer=off"}) {
    const NvmlFixture fixture(config);
    OK(CU(cuInit)(0));
    int can = 0;
    OK(CU(cuDeviceCanAccessPeer)(&can, 0, 1));
    const auto status = [](unsigned from, unsigned to, int capability) {
      nvml::P2pStatus found{};
      CHECK(CU(nvmlDeviceGetP2PStatus)(nvml_device(from), nvml_device(to),
                                       static_cast<nvml::P2pCaps>(capability),
                                       &found) == nvml::kSuccess);
      return found;
    };
    const nvml::P2pStatus expected = can != 0 ? nvml::kP2pOk : nvml::kP2pNotSupported;
    for (const int capability : {nvml::kP2pRead, nvml::kP2pWrite, nvml::kP2pPci})
      CHECK(status(0, 1, capability) == expected);
    CHECK(status(0, 1, nvml::kP2pNvlink) == nvml::kP2pNotSupported);
    CHECK(status(0, 0, nvml::kP2pRead) == nvml::kP2pNotSupported);
    nvml::P2pStatus found{};
    for (const int capability : {-1, 5, 99})
      CHECK(CU(nvmlDeviceGetP2PStatus)(nvml_device(0), nvml_device(1),
                                       static_cast<nvml::P2pCaps>(capability),
                                       &found) == nvml::kInvalidArgument);
    nvml::TopologyLevel level{};
    CHECK(CU(nvmlDeviceGetTopologyCommonAncestor)(nvml_device(0), nvml_device(1), &level) ==
          nvml::kSuccess);
    CHECK(level == nvml::kTopologySystem);
    CHECK(CU(nvmlDeviceGetTopologyCommonAncestor)(nvml_device(0), nvml_device(0), &level) ==
          nvml::kSuccess);
    CHECK(level == nvml::kTopologyInternal);
  }
}

TEST_CASE_FIXTURE(NvmlFixture,
                  "queries of unknown values return not supported, if their arguments are valid") {
  unsigned value = 77;
  unsigned long long energy = 77;
  unsigned long mask = 77;
  const nvml::Device device = nvml_device(0);
  CHECK(CU(nvmlDeviceGetPowerUsage)(device, &value) == nvml::kNotSupported);
  CHECK(CU(nvmlDeviceGetTemperature)(device, 0, &value) == nvml::kNotSupported);
  CHECK(CU(nvmlDeviceGetTotalEnergyConsumption)(device, &energy) == nvml::kNotSupported);
  CHECK(CU(nvmlDeviceGetNumaNodeId)(device, &value) == nvml::kNotSupported);
  CHECK(CU(nvmlDeviceGetCpuAffinity)(device, 1, &mask) == nvml::kNotSupported);
  CHECK((value == 77 && energy == 77 && mask == 77));
  CHECK(CU(nvmlDeviceGetPowerUsage)(nullptr, &value) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetPowerUsage)(device, nullptr) == nvml::kInvalidArgument);
  CHECK(CU(nvmlShutdown)() == nvml::kSuccess);
  CHECK(CU(nvmlDeviceGetPowerUsage)(device, &value) == nvml::kUninitialized);
}

TEST_CASE_FIXTURE(NvmlFixture,
                  "older versions of the PCI information write only their own struct") {
  nvml::PciInfo newest{};
  REQUIRE(CU(nvmlDeviceGetPciInfo_v3)(nvml_device(1), &newest) == nvml::kSuccess);
  nvml::PciInfoV1 first{};
  nvml::PciInfoV2 second{};
  CHECK(CU(nvmlDeviceGetPciInfo)(nvml_device(1), &first) == nvml::kSuccess);
  CHECK(CU(nvmlDeviceGetPciInfo_v2)(nvml_device(1), &second) == nvml::kSuccess);
  for (const nvml::PciInfoV1& part : {first, second.first}) {
    CHECK(std::string(part.busId) == newest.busIdLegacy);
    CHECK(part.bus == newest.bus);
    CHECK(part.pciDeviceId == newest.pciDeviceId);
  }
  CHECK(second.pciSubSystemId == newest.pciSubSystemId);
  CHECK(CU(nvmlDeviceGetPciInfo)(nvml_device(1), nullptr) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetPciInfo_v2)(nullptr, &second) == nvml::kInvalidArgument);
}

TEST_CASE_FIXTURE(NvmlFixture, "display and host link of a device can be queried") {
  const nvml::Device device = nvml_device(0);
  int shown = 9;
  CHECK(CU(nvmlDeviceGetDisplayMode)(device, &shown) == nvml::kSuccess);
  CHECK(shown == 0);
  shown = 9;
  CHECK(CU(nvmlDeviceGetDisplayActive)(device, &shown) == nvml::kSuccess);
  CHECK(shown == 0);
  unsigned most = 0;
  unsigned now = 99;
  CHECK(CU(nvmlDeviceGetMaxPcieLinkGeneration)(device, &most) == nvml::kSuccess);
  CHECK(CU(nvmlDeviceGetCurrPcieLinkGeneration)(device, &now) == nvml::kSuccess);
  CHECK(now <= most);
  CHECK(CU(nvmlDeviceGetGpuMaxPcieLinkGeneration)(device, &now) == nvml::kSuccess);
  CHECK(now >= most);
  CHECK(CU(nvmlDeviceGetMaxPcieLinkWidth)(device, &most) == nvml::kSuccess);
  CHECK(CU(nvmlDeviceGetCurrPcieLinkWidth)(device, &now) == nvml::kSuccess);
  CHECK(now <= most);
  CHECK(most == 16);
  CHECK(CU(nvmlDeviceGetPcieThroughput)(device, 1, &now) == nvml::kSuccess);
  CHECK(now == 0);
  CHECK(CU(nvmlDeviceGetPcieThroughput)(device, 2, &now) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetPcieReplayCounter)(device, &now) == nvml::kSuccess);
  CHECK(CU(nvmlDeviceGetCurrPcieLinkWidth)(device, nullptr) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetCurrPcieLinkWidth)(nullptr, &now) == nvml::kInvalidArgument);
}

TEST_CASE_FIXTURE(NvmlFixture, "the slowdown temperature is below the shutdown temperature") {
  unsigned shutdown = 0;
  unsigned slowdown = 0;
  CHECK(CU(nvmlDeviceGetTemperatureThreshold)(nvml_device(0), 0, &shutdown) == nvml::kSuccess);
  CHECK(CU(nvmlDeviceGetTemperatureThreshold)(nvml_device(0), 1, &slowdown) == nvml::kSuccess);
  CHECK(slowdown < shutdown);
  CHECK(CU(nvmlDeviceGetTemperatureThreshold)(nvml_device(0), 4, &slowdown) == nvml::kNotSupported);
  CHECK(CU(nvmlDeviceGetTemperatureThreshold)(nvml_device(0), 8, &slowdown) ==
        nvml::kInvalidArgument);
}

TEST_CASE("functions of NVML without a simulation exist and return not supported") {
  using Unsupported = nvml::Return();
  auto* const power = reinterpret_cast<Unsupported*>(sim::resolve("nvmlDeviceGetPowerSource"));
  REQUIRE((power != nullptr));
  {
    const sim::Simulator simulator("");
    CHECK(power() == nvml::kUninitialized);
  }
  const NvmlFixture fixture;
  CHECK(power() == nvml::kNotSupported);
  CHECK(sim::resolve("nvmlDeviceGetNvLinkRemoteDeviceType") != nullptr);
  CHECK(sim::resolve("nvmlThereIsNoSuchFunction") == nullptr);
}

}  // namespace nvml_test
