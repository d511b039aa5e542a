// SPDX-License-Identifier: Apache-2.0
// Source: NVML API Reference Guide, "Device Queries".
#include "sim/nvml_fixture.hpp"

namespace nvml_handle_test {

using namespace berth;
using namespace berth::test;

namespace {

nvml::Return by_address(const char* address, nvml::Device* device) {
  return CU(nvmlDeviceGetHandleByPciBusId_v2)(address, device);
}

}  // namespace

TEST_CASE_FIXTURE(NvmlFixture, "a handle is found again by index, UUID and address") {
  for (unsigned index = 0; index < 2; ++index) {
    const nvml::Device device = nvml_device(index);
    unsigned number = 99;
    CHECK(CU(nvmlDeviceGetIndex)(device, &number) == nvml::kSuccess);
    CHECK(number == index);
    number = 99;
    CHECK(CU(nvmlDeviceGetMinorNumber)(device, &number) == nvml::kSuccess);
    CHECK(number == index);
    nvml::Device found = nullptr;
    CHECK(CU(nvmlDeviceGetHandleByUUID)(nvml_uuid(device).c_str(), &found) == nvml::kSuccess);
    CHECK((found == device));
    nvml::PciInfo pci{};
    CHECK(CU(nvmlDeviceGetPciInfo_v3)(device, &pci) == nvml::kSuccess);
    for (const char* address : {pci.busId, pci.busIdLegacy}) {
      found = nullptr;
      CHECK(by_address(address, &found) == nvml::kSuccess);
      CHECK((found == device));
    }
  }
}

TEST_CASE_FIXTURE(NvmlFixture, "an address is written in any of three ways") {
  for (const char* address : {"0:1b:0.0", "0:1B:0", "1b:0.0", "00000000:1b:00.0"}) {
    CAPTURE(address);
    nvml::Device found = nullptr;
    CHECK(by_address(address, &found) == nvml::kSuccess);
    CHECK((found == nvml_device(1)));
  }
  nvml::Device found = nullptr;
  for (const char* malformed : {"", "1b", "1b:0", "0:1b:0.0.0", "0:0:1b:0", "0:1b:0.", ":1b:0.0",
                                "g:0.0", "1b:0.0 ", "0:1b.0:0", "0:100000000:0.0", "-1:0.0"}) {
    CAPTURE(malformed);
    CHECK(by_address(malformed, &found) == nvml::kInvalidArgument);
  }
  for (const char* nowhere : {"0:1c:0.0", "1:1b:0.0", "0:1b:1.0", "0:1b:0.1"}) {
    CAPTURE(nowhere);
    CHECK(by_address(nowhere, &found) == nvml::kNotFound);
  }
  CHECK(by_address(nullptr, &found) == nvml::kInvalidArgument);
  CHECK(by_address("1b:0.0", nullptr) == nvml::kInvalidArgument);
}

TEST_CASE_FIXTURE(NvmlFixture, "a UUID that no device has is not found, and no UUID is refused") {
  nvml::Device found = nullptr;
  std::string uuid = nvml_uuid(nvml_device(0));
  const auto by_uuid = [&](const std::string& text) {
    return CU(nvmlDeviceGetHandleByUUID)(text.c_str(), &found);
  };
  CHECK(by_uuid("MIG" + uuid.substr(3)) == nvml::kNotFound);
  CHECK(by_uuid(uuid.substr(0, 20)) == nvml::kInvalidArgument);
  CHECK(by_uuid(uuid + "0") == nvml::kInvalidArgument);
  CHECK(by_uuid("XPU" + uuid.substr(3)) == nvml::kInvalidArgument);
  CHECK(by_uuid("") == nvml::kInvalidArgument);
  uuid.back() = uuid.back() == '0' ? '1' : '0';
  CHECK(by_uuid(uuid) == nvml::kNotFound);
  uuid.back() = 'x';
  CHECK(by_uuid(uuid) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetHandleByUUID)(nullptr, &found) == nvml::kInvalidArgument);
  CHECK(CU(nvmlDeviceGetHandleByUUID)(uuid.c_str(), nullptr) == nvml::kInvalidArgument);
}

TEST_CASE_FIXTURE(NvmlFixture, "no device has a serial number") {
  nvml::Device found = nullptr;
  char serial[30];
  CHECK(CU(nvmlDeviceGetSerial)(nvml_device(0), serial, sizeof(serial)) == nvml::kNotSupported);
  CHECK(CU(nvmlDeviceGetHandleBySerial)("1320000000000", &found) == nvml::kNotFound);
  CHECK(CU(nvmlDeviceGetHandleBySerial)(nullptr, &found) == nvml::kInvalidArgument);
}

}  // namespace nvml_handle_test
