// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Initialization", "Error Handling", "Version Management", "Device
// Management", "Peer Context Memory Access".
#include <cstring>
#include <string>

#include "contract/contract_driver.hpp"

namespace device_contract_test {

using namespace berth;
using namespace berth::test;

// "Initialization", cuInit: "Currently, the Flags parameter must be 0."
TEST_CASE("cuInit may be repeated, and takes no flags") {
  Driver& driver = contract_driver();
  CHECK(driver.try_init(0U) == CUDA_SUCCESS);
  CHECK(driver.try_init(1U) == CUDA_ERROR_INVALID_VALUE);
}

// "Error Handling", cuGetErrorName: "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE
// will be returned and *pStr will be set to the NULL address."
TEST_CASE("a known error code has a name, and an unknown one has none") {
  Driver& driver = contract_driver();
  const char* text = nullptr;
  CHECK(driver.try_get_error_name(CUDA_ERROR_OUT_OF_MEMORY, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(driver.try_get_error_string(CUDA_ERROR_OUT_OF_MEMORY, &text) == CUDA_SUCCESS);
  CHECK(std::strlen(text) > 0);
  CHECK(driver.try_get_error_name(static_cast<CUresult>(1000), &text) == CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
}

// "Version Management", cuDriverGetVersion: "(1000 * major + 10 * minor)"; a null result is
// CUDA_ERROR_INVALID_VALUE.
TEST_CASE("berth supports the driver's version") {
  Driver& driver = contract_driver();
  int version = 0;
  CHECK(driver.try_driver_get_version(&version) == CUDA_SUCCESS);
  CHECK(version >= 11040);
  CHECK(driver.try_driver_get_version(static_cast<int*>(nullptr)) == CUDA_ERROR_INVALID_VALUE);
}

// "Device Management", cuDeviceGet: ordinals lie in [0, cuDeviceGetCount() - 1].
TEST_CASE("ordinals run from zero to the count") {
  Driver& driver = contract_driver();
  int count = 0;
  CHECK(driver.try_device_get_count(&count) == CUDA_SUCCESS);
  CHECK(count > 0);
  CUdevice device = -1;
  CHECK(driver.try_device_get(&device, count - 1) == CUDA_SUCCESS);
  CHECK(driver.try_device_get(&device, count) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(driver.try_device_get(&device, -1) == CUDA_ERROR_INVALID_DEVICE);
}

// "Device Management", cuDeviceGetName: "name is shortened to the specified len, if len is less
// than the device name."
TEST_CASE("a name is truncated to its buffer") {
  Driver& driver = contract_driver();
  char whole[256] = {};
  char part[4] = {'x', 'x', 'x', 'x'};
  CHECK(driver.try_device_get_name(whole, 256, 0) == CUDA_SUCCESS);
  CHECK(std::strlen(whole) > 3);
  CHECK(driver.try_device_get_name(part, 4, 0) == CUDA_SUCCESS);
  CHECK(std::string(part) == std::string(whole, 3));
}

// "Device Management", cuDeviceGetPCIBusId: "[domain]:[bus]:[device].[function] ... pciBusId should
// be large enough to store 13 characters including the NULL-terminator."
TEST_CASE("a PCI address has 12 characters and agrees with the attributes") {
  Driver& driver = contract_driver();
  char text[13] = {};
  CHECK(driver.try_device_get_pci_bus_id(text, 13, 0) == CUDA_SUCCESS);
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  unsigned function = 0;
  CHECK(std::sscanf(text, "%4x:%2x:%2x.%1x", &domain, &bus, &slot, &function) == 4);
  int value = -1;
  driver.device_get_attribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0);
  CHECK(value == static_cast<int>(bus));
  driver.device_get_attribute(&value, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0);
  CHECK(value == static_cast<int>(slot));
}

// "Device Management", cuDeviceGetUuid: 16 octets that identify the device.
TEST_CASE("no two devices have the same UUID") {
  Driver& driver = contract_driver();
  int count = 0;
  driver.device_get_count(&count);
  std::vector<std::string> seen;
  for (CUdevice device = 0; device < count; ++device) {
    CUuuid uuid;
    CHECK(driver.try_device_get_uuid(&uuid, device) == CUDA_SUCCESS);
    const std::string text(uuid.bytes, sizeof(uuid.bytes));
    for (const std::string& other : seen) CHECK(text != other);
    seen.push_back(text);
  }
}

// "Device Management", cuDeviceGetAttribute: CUDA_ERROR_INVALID_DEVICE and
// CUDA_ERROR_INVALID_VALUE.
TEST_CASE("the attributes of a device have plausible values") {
  Driver& driver = contract_driver();
  int value = -1;
  CHECK(driver.try_device_get_attribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0) ==
        CUDA_SUCCESS);
  CHECK(value == 1);
  CHECK(driver.try_device_get_attribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0) == CUDA_SUCCESS);
  CHECK(value == 32);
  CHECK(driver.try_device_get_attribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, -1) ==
        CUDA_ERROR_INVALID_DEVICE);
  CHECK(driver.try_device_get_attribute(static_cast<int*>(nullptr), CU_DEVICE_ATTRIBUTE_WARP_SIZE,
                                        0) == CUDA_ERROR_INVALID_VALUE);
}

// "Peer Context Memory Access", cuDeviceCanAccessPeer: CUDA_ERROR_INVALID_DEVICE.
TEST_CASE("a query of peer access needs two existing devices") {
  Driver& driver = contract_driver();
  int can = -1;
  CHECK(driver.try_device_can_access_peer(&can, 0, -1) == CUDA_ERROR_INVALID_DEVICE);
  int count = 0;
  driver.device_get_count(&count);
  if (count < 2) return;
  CHECK(driver.try_device_can_access_peer(&can, 0, 1) == CUDA_SUCCESS);
  CHECK((can == 0 || can == 1));
}

}  // namespace device_contract_test
