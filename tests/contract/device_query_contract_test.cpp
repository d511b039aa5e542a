// SPDX-License-Identifier: Apache-2.0
// Queries that need no context: errors, devices and their attributes.
// Source: CUDA Driver API, "Error Handling", "Initialization", "Device Management".
#include <cstdlib>
#include <cstring>
#include <string>

#include "contract/contract_driver.hpp"

namespace device_query_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

int attribute(const Driver& driver, CUdevice_attribute attribute) {
  int value = -1;
  CHECK(driver.try_device_get_attribute(&value, attribute, 0) == CUDA_SUCCESS);
  return value;
}

int device_count(const Driver& driver) {
  int count = 0;
  driver.device_get_count(&count);
  return count;
}

}  // namespace

// cuGetErrorName: "the string representation of an error code enum name".
TEST_CASE("an error's name is that of its enumerator") {
  Driver& driver = contract_driver();
  const struct {
    CUresult code;
    const char* name;
  } errors[] = {
#define BERTH_ERROR(code) {code, #code}
      BERTH_ERROR(CUDA_SUCCESS),
      BERTH_ERROR(CUDA_ERROR_INVALID_VALUE),
      BERTH_ERROR(CUDA_ERROR_OUT_OF_MEMORY),
      BERTH_ERROR(CUDA_ERROR_NOT_INITIALIZED),
      BERTH_ERROR(CUDA_ERROR_DEINITIALIZED),
      BERTH_ERROR(CUDA_ERROR_NO_DEVICE),
      BERTH_ERROR(CUDA_ERROR_INVALID_DEVICE),
      BERTH_ERROR(CUDA_ERROR_INVALID_CONTEXT),
      BERTH_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED),
      BERTH_ERROR(CUDA_ERROR_INVALID_HANDLE),
      BERTH_ERROR(CUDA_ERROR_NOT_FOUND),
      BERTH_ERROR(CUDA_ERROR_NOT_READY),
      BERTH_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS),
      BERTH_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED),
      BERTH_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED),
      BERTH_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
      BERTH_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
      BERTH_ERROR(CUDA_ERROR_LAUNCH_FAILED),
      BERTH_ERROR(CUDA_ERROR_NOT_PERMITTED),
      BERTH_ERROR(CUDA_ERROR_NOT_SUPPORTED),
      BERTH_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
      BERTH_ERROR(CUDA_ERROR_UNKNOWN),
#undef BERTH_ERROR
  };
  for (const auto& error : errors) {
    const char* text = nullptr;
    CHECK(driver.try_get_error_name(error.code, &text) == CUDA_SUCCESS);
    REQUIRE(text != nullptr);
    CHECK(std::string(text) == error.name);
  }
}

// cuGetErrorString: "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE will be returned
// and *pStr will be set to the NULL address."
TEST_CASE("an unknown error has no description") {
  Driver& driver = contract_driver();
  const char* text = "untouched";
  CHECK(driver.try_get_error_string(static_cast<CUresult>(1000), &text) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
}

// cuInit: "Initializes the driver API and must be called before any other function from the driver
// API in the current process": once for all threads.
TEST_CASE("cuInit is not needed on each thread") {
  Driver& driver = contract_driver();
  int count = -1;
  CUresult result = CUDA_ERROR_UNKNOWN;
  std::thread([&] { result = driver.try_device_get_count(&count); }).join();
  CHECK(result == CUDA_SUCCESS);
  CHECK(count == device_count(driver));
}

// Each function's list of return values: CUDA_ERROR_INVALID_VALUE.
TEST_CASE("a device query with a null output is rejected") {
  Driver& driver = contract_driver();
  CHECK(driver.try_device_get_count(static_cast<int*>(nullptr)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_device_get(static_cast<CUdevice*>(nullptr), 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_device_total_mem(static_cast<std::size_t*>(nullptr), 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(driver.try_device_get_uuid(static_cast<CUuuid*>(nullptr), 0) == CUDA_ERROR_INVALID_VALUE);
}

// Each function's list of return values: CUDA_ERROR_INVALID_DEVICE.
TEST_CASE("queries of a device that does not exist are refused") {
  Driver& driver = contract_driver();
  for (const CUdevice device : {-1, device_count(driver)}) {
    char text[64] = {};
    CUuuid uuid;
    std::size_t bytes = 0;
    CHECK(driver.try_device_get_name(text, 64, device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(driver.try_device_get_uuid(&uuid, device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(driver.try_device_get_pci_bus_id(text, 64, device) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(driver.try_device_total_mem(&bytes, device) == CUDA_ERROR_INVALID_DEVICE);
  }
}

// cuDeviceGetAttribute: CUDA_ERROR_INVALID_VALUE.
TEST_CASE("a query of an attribute that does not exist is refused") {
  int value = -1;
  CHECK(contract_driver().try_device_get_attribute(&value, static_cast<CUdevice_attribute>(0), 0) ==
        CUDA_ERROR_INVALID_VALUE);
}

// CUdevice_attribute: whatever the enumeration names has a value.
TEST_CASE("every attribute that the driver's CUDA names has a value") {
  Driver& driver = contract_driver();
  // The enumeration grew with the releases: as far as this one goes, where the driver is as new.
  const int end = driver.version() >= CUDA_VERSION ? CU_DEVICE_ATTRIBUTE_MAX
                                                   : CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES;
  for (int number = 1; number < end; ++number) {
    CAPTURE(number);
    int value = -1;
    CHECK(driver.try_device_get_attribute(&value, static_cast<CUdevice_attribute>(number), 0) ==
          CUDA_SUCCESS);
  }
  int value = -7;
  CHECK(driver.try_device_get_attribute(&value, static_cast<CUdevice_attribute>(255), 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(value == -7);
}

// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH and its kind: "Maximum 2D texture width".
TEST_CASE("a device has limits for textures and surfaces") {
  Driver& driver = contract_driver();
  for (const CUdevice_attribute limit :
       {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT,
        CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT})
    CHECK(attribute(driver, limit) > 0);
}

// cuModuleGetLoadingMode: "Returns lazy loading mode in *mode. The lazy loading mode is controlled
// by CUDA_MODULE_LOADING env variable."
TEST_CASE("the module loading mode can be queried") {
  auto* const get = CONTRACT_FUNCTION(cuModuleGetLoadingMode, 11070);
  if (get == nullptr) {
    MESSAGE("skipped: needs CUDA 11.7");
    return;
  }
  auto mode = static_cast<CUmoduleLoadingMode>(0);
  CHECK(get(&mode) == CUDA_SUCCESS);
  CHECK((mode == CU_MODULE_EAGER_LOADING || mode == CU_MODULE_LAZY_LOADING));
  CHECK(get(nullptr) == CUDA_ERROR_INVALID_VALUE);
}

// "Unified Addressing": host memory is mapped into every device that supports it.
TEST_CASE("a device with unified addresses maps host memory") {
  Driver& driver = contract_driver();
  REQUIRE(attribute(driver, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 1);
  CHECK(attribute(driver, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY) == 1);
}

// CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: "Maximum optin shared memory per block".
TEST_CASE("the opt-in maximum of shared memory is at least the default maximum") {
  Driver& driver = contract_driver();
  const int plain = attribute(driver, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  CHECK(plain > 0);
  CHECK(plain <= attribute(driver, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  CHECK(plain <= attribute(driver, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
}

// CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED: "Device supports host memory registration".
TEST_CASE_FIXTURE(ContractFixture, "a device that reports host registration supports it") {
  const int can = attribute(driver, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  constexpr std::size_t bytes = 64 << 10;
  void* own = std::aligned_alloc(4096, bytes);
  std::memset(own, 0, bytes);
  const CUresult result = driver.try_mem_host_register(own, bytes, 0U);
  CHECK((result == CUDA_SUCCESS) == (can == 1));
  if (result == CUDA_SUCCESS) driver.mem_host_unregister(own);
  std::free(own);
}

}  // namespace device_query_contract_test
