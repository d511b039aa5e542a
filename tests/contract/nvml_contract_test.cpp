// SPDX-License-Identifier: Apache-2.0
// NVML, and its agreement with CUDA about the devices.
// Source: NVML API Reference Guide, "Initialization and Cleanup", "System Queries", "Device
// Queries".
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "contract/contract_driver.hpp"
#include "driver/driver_source.hpp"
#include "driver/nvml_abi.hpp"
#include "sim/functions.hpp"

namespace nvml_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

/// NVML beside the driver under test, initialized for the length of a case.
struct NvmlFixture {
  NvmlFixture() : driver(contract_driver()) {
    open();
    available = call<nvml::InitFn>("nvmlInit_v2") == nvml::kSuccess;
    if (!available) MESSAGE("skipped: needs NVML");
  }
  ~NvmlFixture() {
    if (available) call<nvml::ShutdownFn>("nvmlShutdown");
  }
  NvmlFixture(const NvmlFixture&) = delete;
  NvmlFixture& operator=(const NvmlFixture&) = delete;

  template <class Function, class... Args>
  nvml::Return call(const char* symbol, Args... args) const {
    constexpr nvml::Return function_not_found = 13;
    auto* function =
        reinterpret_cast<Function*>(source.resolve ? source.resolve(symbol, 0) : nullptr);
    return function == nullptr ? function_not_found : function(args...);
  }
  [[nodiscard]] nvml::Return find_by_index(unsigned index, nvml::Device& device) const {
    return call<nvml::DeviceGetHandleByIndexFn>("nvmlDeviceGetHandleByIndex_v2", index, &device);
  }
  [[nodiscard]] nvml::Return find_by_pci(const char* address, nvml::Device& device) const {
    return call<FindByText>("nvmlDeviceGetHandleByPciBusId_v2", address, &device);
  }
  [[nodiscard]] nvml::Return find_by_uuid(const char* uuid, nvml::Device& device) const {
    return call<FindByText>("nvmlDeviceGetHandleByUUID", uuid, &device);
  }
  /// Handle of CUDA's device 0.
  [[nodiscard]] nvml::Device first() const {
    char address[13] = {};
    driver.device_get_pci_bus_id(address, 13, 0);
    nvml::Device device = nullptr;
    CHECK(find_by_pci(address, device) == nvml::kSuccess);
    return device;
  }
  [[nodiscard]] unsigned index_of(nvml::Device device) const {
    unsigned index = ~0U;
    CHECK(call<nvml::Return(nvml::Device, unsigned*)>("nvmlDeviceGetIndex", device, &index) ==
          nvml::kSuccess);
    return index;
  }

  Driver& driver;
  DriverSource source;
  bool available = false;

 private:
  using FindByText = nvml::Return(const char* text, nvml::Device* device);

  void open() {
    if (driver.name() == "sim") {
      source.resolve = [](const char* symbol, int) { return sim::resolve(symbol); };
      return;
    }
    const std::string folder = driver.name().substr(0, driver.name().rfind('/') + 1);
    source = open_nvml_library(folder + "libnvidia-ml.so.1");
    if (!source.resolve) source = open_nvml_library("libnvidia-ml.so.1");
  }
};

}  // namespace

// nvmlDeviceGetHandleByPciBusId: any device of CUDA's is one of NVML's, at the same PCI address.
TEST_CASE_FIXTURE(NvmlFixture, "NVML lists every device that CUDA enumerates") {
  if (!available) return;
  int count = 0;
  driver.device_get_count(&count);
  for (CUdevice ordinal = 0; ordinal < count; ++ordinal) {
    char address[13] = {};
    driver.device_get_pci_bus_id(address, 13, ordinal);
    nvml::Device device = nullptr;
    CHECK(find_by_pci(address, device) == nvml::kSuccess);
  }
}

// nvmlDeviceGetHandleByUUID: "Acquire the handle for a particular device, based on its globally
// unique immutable UUID"; cuDeviceGetUuid has its 16 octets.
TEST_CASE_FIXTURE(NvmlFixture, "CUDA and NVML know a device by the same UUID") {
  if (!available) return;
  CUuuid uuid;
  driver.device_get_uuid(&uuid, 0);
  std::string digits;
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) digits += '-';
    digits += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  nvml::Device device = nullptr;
  if (find_by_uuid(("GPU-" + digits).c_str(), device) == nvml::kSuccess)
    CHECK(index_of(device) == index_of(first()));
  else
    CHECK(find_by_uuid(("MIG-" + digits).c_str(), device) == nvml::kSuccess);
}

// nvmlDeviceGetHandleByUUID: NVML_ERROR_NOT_FOUND "if uuid does not match a valid device on the
// system".
TEST_CASE_FIXTURE(NvmlFixture, "no device has a UUID of zeros") {
  if (!available) return;
  nvml::Device device = nullptr;
  CHECK(find_by_uuid("GPU-00000000-0000-0000-0000-000000000000", device) == nvml::kNotFound);
}

// nvmlDeviceGetHandleByPciBusId: NVML_ERROR_NOT_FOUND "if pciBusId does not match a valid device on
// the system".
TEST_CASE_FIXTURE(NvmlFixture, "a PCI address without a device is not found") {
  if (!available) return;
  nvml::Device device = nullptr;
  CHECK(find_by_pci("0000:FF:1F.0", device) == nvml::kNotFound);
}

// nvmlDeviceGetHandleByIndex: "Valid indices are derived from the accessibleDevices count";
// NVML_ERROR_INVALID_ARGUMENT.
TEST_CASE_FIXTURE(NvmlFixture, "NVML's indices run from zero to the count") {
  if (!available) return;
  unsigned count = 0;
  CHECK(call<nvml::DeviceGetCountFn>("nvmlDeviceGetCount_v2", &count) == nvml::kSuccess);
  CHECK(count >= 1);
  for (unsigned index = 0; index < count; ++index) {
    nvml::Device device = nullptr;
    CHECK(find_by_index(index, device) == nvml::kSuccess);
    CHECK(index_of(device) == index);
  }
  nvml::Device device = nullptr;
  CHECK(find_by_index(count, device) == nvml::kInvalidArgument);
}

// nvmlDeviceGetUUID, nvmlDeviceGetName: NVML_ERROR_INSUFFICIENT_SIZE "if length is too small".
TEST_CASE_FIXTURE(NvmlFixture, "NVML refuses a buffer that is too small for a text") {
  if (!available) return;
  char text[nvml::kTextBytes] = {};
  CHECK(call<nvml::DeviceGetUuidFn>("nvmlDeviceGetUUID", first(), text, 4U) ==
        nvml::kInsufficientSize);
  CHECK(call<nvml::DeviceGetNameFn>("nvmlDeviceGetName", first(), text, 2U) ==
        nvml::kInsufficientSize);
  CHECK(call<nvml::DeviceGetUuidFn>("nvmlDeviceGetUUID", first(), text, nvml::kTextBytes) ==
        nvml::kSuccess);
  CHECK(std::strlen(text) >= 40);
}

// nvmlInit: "A reference count of the number of initializations is maintained. Shutdown only occurs
// when the reference count reaches zero."
TEST_CASE_FIXTURE(NvmlFixture, "NVML works until its last user shuts it down") {
  if (!available) return;
  CHECK(call<nvml::InitFn>("nvmlInit_v2") == nvml::kSuccess);
  CHECK(call<nvml::ShutdownFn>("nvmlShutdown") == nvml::kSuccess);
  unsigned count = 0;
  CHECK(call<nvml::DeviceGetCountFn>("nvmlDeviceGetCount_v2", &count) == nvml::kSuccess);
}

// nvmlSystemGetCudaDriverVersion_v2: the version "is the same as the CUDA API cuDriverGetVersion()
// would return on the system."
TEST_CASE_FIXTURE(NvmlFixture, "NVML and CUDA agree on the version of CUDA") {
  if (!available) return;
  int version = 0;
  CHECK(call<nvml::Return(int*)>("nvmlSystemGetCudaDriverVersion_v2", &version) == nvml::kSuccess);
  CHECK(version == driver.version());
}

// nvmlMemory_t: free is "Unallocated device memory", used the "Sum of Reserved and Allocated device
// memory".
TEST_CASE_FIXTURE(NvmlFixture, "used and free memory add up to the total") {
  if (!available) return;
  nvml::Memory memory{};
  CHECK(call<nvml::DeviceGetMemoryInfoFn>("nvmlDeviceGetMemoryInfo", first(), &memory) ==
        nvml::kSuccess);
  CHECK(memory.total > 0);
  CHECK(memory.used + memory.free == memory.total);
}

// nvmlMemory_t: "Total physical device memory"; cuDeviceTotalMem: what of it is "available on the
// device".
TEST_CASE_FIXTURE(NvmlFixture, "CUDA reports no more memory than NVML") {
  if (!available) return;
  nvml::Memory memory{};
  std::size_t available_bytes = 0;
  CHECK(call<nvml::DeviceGetMemoryInfoFn>("nvmlDeviceGetMemoryInfo", first(), &memory) ==
        nvml::kSuccess);
  driver.device_total_mem(&available_bytes, 0);
  CHECK(available_bytes <= memory.total);
}

}  // namespace nvml_contract_test
