// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "sim/sim_fixture.hpp"
#include "support/environment.hpp"

using namespace berth;
using namespace berth::test;

namespace {

nvml::Device device_at(unsigned index) {
  nvml::Device device = nullptr;
  REQUIRE(CU(nvmlDeviceGetHandleByIndex_v2)(index, &device) == nvml::kSuccess);
  return device;
}

}  // namespace

TEST_CASE("NVML lists every device in PCI order, whatever CUDA sees") {
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
    CHECK(CU(nvmlDeviceGetPciInfo_v3)(device_at(index), &pci) == nvml::kSuccess);
    CHECK(pci.bus == 0x1a + index);
    CHECK(std::string(pci.busId) ==
          "00000000:1" + std::string(1, static_cast<char>('A' + index)) + ":00.0");
    CHECK(std::string(pci.busIdLegacy) == std::string(pci.busId).substr(4));
    CHECK(CU(nvmlDeviceGetName)(device_at(index), name, sizeof(name)) == nvml::kSuccess);
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
  CHECK(CU(nvmlDeviceGetUUID)(device_at(0), text, sizeof(text)) == nvml::kSuccess);
  char first_byte[3];
  snprintf(first_byte, sizeof(first_byte), "%02x", static_cast<unsigned char>(bytes.bytes[0]));
  CHECK(std::string(text).substr(0, 6) == std::string("GPU-") + first_byte);
  make_memory(16 << 20);
  nvml::Memory memory{};
  CHECK(CU(nvmlDeviceGetMemoryInfo)(device_at(0), &memory) == nvml::kSuccess);
  CHECK(memory.total == 1ULL << 30);
  CHECK(memory.used == 16ULL << 20);
  CHECK(memory.free + memory.used == memory.total);
}

TEST_CASE("NVML needs to be initialised, as often as it is shut down") {
  const sim::Simulator sim("");
  unsigned count = 0;
  CHECK(CU(nvmlShutdown)() == nvml::kUninitialized);
  CHECK(CU(nvmlDeviceGetCount_v2)(&count) == nvml::kUninitialized);
  REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess);
  REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess);
  const nvml::Device device = device_at(0);
  CHECK(CU(nvmlShutdown)() == nvml::kSuccess);
  CHECK(CU(nvmlDeviceGetCount_v2)(&count) == nvml::kSuccess);
  CHECK(CU(nvmlShutdown)() == nvml::kSuccess);
  nvml::Memory memory{};
  CHECK(CU(nvmlDeviceGetMemoryInfo)(device, &memory) == nvml::kUninitialized);
}

TEST_CASE("NVML refuses what names no device, and buffers that are too small") {
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
  CHECK(CU(nvmlDeviceGetUUID)(device_at(0), text, 40) == nvml::kInsufficientSize);
  CHECK(CU(nvmlDeviceGetUUID)(device_at(0), text, 41) == nvml::kSuccess);
  CHECK(CU(nvmlDeviceGetUUID)(device_at(0), nullptr, 41) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetName)(device_at(0), text, 0) == nvml::kInsufficientSize);
  CHECK(CU(nvmlDeviceGetPciInfo_v3)(device_at(0), nullptr) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetMemoryInfo)(device_at(0), nullptr) == nvml::kInvalidArgument);
}
