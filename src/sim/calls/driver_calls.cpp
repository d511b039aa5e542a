// SPDX-License-Identifier: Apache-2.0
// Initialisation, version and error names.
// Source: CUDA Driver API, "Initialization", "Version Management", "Error Handling".
#include <algorithm>
#include <utility>

#include "base/env.hpp"
#include "sim/call.hpp"
#include "sim/error_names.hpp"
#include "sim/visible_devices.hpp"

namespace berth::sim {
namespace {

/// The slots in the order in which CUDA counts before anything is hidden.
std::vector<int> enumeration(const State& state) {
  std::vector<int> slots;
  for (const Device& device : state.devices) slots.push_back(device.facts.slot);
  const bool by_address = env("CUDA_DEVICE_ORDER").value_or("") == "PCI_BUS_ID";
  if (!by_address && state.config.order == DeviceOrder::reverse)
    std::reverse(slots.begin(), slots.end());
  return slots;
}

std::vector<int> visible_slots(const State& state) {
  const std::vector<int> slots = enumeration(state);
  std::vector<std::string> uuids;
  for (const int slot : slots)
    uuids.push_back(uuid_text(state.devices[static_cast<std::size_t>(slot)].facts));
  std::vector<int> visible;
  for (const int place : visible_devices(env("CUDA_VISIBLE_DEVICES"), uuids))
    visible.push_back(slots[static_cast<std::size_t>(place)]);
  return visible;
}

}  // namespace

CUresult berth_sim_cuInit(unsigned flags) {
  if (this_thread().in_host_function) return CUDA_ERROR_NOT_PERMITTED;
  MutexLock lock(mutex);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  State* state = installed_or_from_environment();
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ++state->calls[static_cast<std::size_t>(Function::k_cuInit)];
  if (state->initialized) return CUDA_SUCCESS;
  std::vector<int> visible = visible_slots(*state);
  if (visible.empty()) return CUDA_ERROR_NO_DEVICE;
  state->visible = std::move(visible);
  state->initialized = true;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = simulated_driver_version();
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorName* known = find_error_name(error);
  *text = known == nullptr ? nullptr : known->name;
  return known == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult berth_sim_cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorName* known = find_error_name(error);
  *text = known == nullptr ? nullptr : known->description;
  return known == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace berth::sim
