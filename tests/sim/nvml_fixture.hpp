// SPDX-License-Identifier: Apache-2.0
// A simulator in which NVML is initialized.
#pragma once

#include <string>

#include "sim/nvml/types.hpp"
#include "sim/sim_fixture.hpp"

namespace berth::test {

struct NvmlFixture {
  explicit NvmlFixture(const std::string& config = "devices=2,memory=1GiB") : sim(config) {
    REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess);
  }
  NvmlFixture(const NvmlFixture&) = delete;
  NvmlFixture& operator=(const NvmlFixture&) = delete;

  sim::Simulator sim;
};

inline nvml::Device nvml_device(unsigned index) {
  nvml::Device device = nullptr;
  REQUIRE(CU(nvmlDeviceGetHandleByIndex_v2)(index, &device) == nvml::kSuccess);
  return device;
}

inline nvml::Device nvml_instance(nvml::Device device, unsigned index) {
  nvml::Device instance = nullptr;
  REQUIRE(CU(nvmlDeviceGetMigDeviceHandleByIndex)(device, index, &instance) == nvml::kSuccess);
  return instance;
}

inline std::string nvml_uuid(nvml::Device device) {
  char text[nvml::kTextBytes];
  REQUIRE(CU(nvmlDeviceGetUUID)(device, text, sizeof(text)) == nvml::kSuccess);
  return text;
}

inline std::string nvml_name(nvml::Device device) {
  char text[nvml::kTextBytes];
  REQUIRE(CU(nvmlDeviceGetName)(device, text, sizeof(text)) == nvml::kSuccess);
  return text;
}

inline nvml::Memory nvml_memory(nvml::Device device) {
  nvml::Memory memory{};
  REQUIRE(CU(nvmlDeviceGetMemoryInfo)(device, &memory) == nvml::kSuccess);
  return memory;
}

}  // namespace berth::test
