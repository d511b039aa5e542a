// SPDX-License-Identifier: Apache-2.0
#include "driver/nvml.hpp"

#include <utility>

#include <fmt/format.h>

namespace berth {

Nvml::Nvml(DriverSource source) : source_(std::move(source)) {
  if (!source_.resolve) {
    problem_ = source_.problem.empty() ? "no NVML" : source_.problem;
    return;
  }
#define BERTH_LOAD(member, symbol, type)                                      \
  table_.member = reinterpret_cast<nvml::type*>(source_.resolve(#symbol, 0)); \
  if (table_.member == nullptr && problem_.empty()) problem_ = "NVML lacks " #symbol;
  BERTH_NVML_FUNCTIONS(BERTH_LOAD)
#undef BERTH_LOAD
  if (!problem_.empty()) return;
  const nvml::Return result = table_.init();
  if (result != nvml::kSuccess) problem_ = fmt::format("nvmlInit failed with code {}", result);
}

Nvml::~Nvml() {
  if (usable()) table_.shutdown();
}

std::vector<Nvml::Device> Nvml::devices() const {
  std::vector<Device> devices;
  if (!usable()) return devices;
  unsigned count = 0;
  if (table_.device_get_count(&count) != nvml::kSuccess) return devices;
  for (unsigned index = 0; index < count; ++index) {
    nvml::Device handle = nullptr;
    char uuid[nvml::kTextBytes] = {};
    char name[nvml::kTextBytes] = {};
    nvml::PciInfo pci{};
    nvml::Memory memory{};
    const bool described = table_.device_get_handle_by_index(index, &handle) == nvml::kSuccess &&
                           table_.device_get_uuid(handle, uuid, sizeof uuid) == nvml::kSuccess &&
                           table_.device_get_name(handle, name, sizeof name) == nvml::kSuccess &&
                           table_.device_get_pci_info(handle, &pci) == nvml::kSuccess &&
                           table_.device_get_memory_info(handle, &memory) == nvml::kSuccess;
    if (described) devices.push_back({uuid, pci.busId, name, memory.total});
  }
  return devices;
}

}  // namespace berth
