// SPDX-License-Identifier: Apache-2.0
// Source: NVML API Reference Guide, "Multi Instance GPU Management".
#include "berth/bytes.hpp"

#include "sim/nvml/nvml_call.hpp"

namespace berth::sim {
namespace {

bool is_split(const State& state, const Device& device) {
  return state.config.mig.contains(device.facts.slot);
}

}  // namespace

nvml::Return berth_sim_nvmlDeviceGetMigMode(nvml::Device device, unsigned* current,
                                            unsigned* pending) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find_gpu(device);
  if (found == nullptr || current == nullptr || pending == nullptr) return nvml::kInvalidArgument;
  *current = is_split(call.state(), *found) ? 1 : 0;
  *pending = *current;
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetMaxMigDeviceCount(nvml::Device device, unsigned* count) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find_gpu(device);
  if (found == nullptr || count == nullptr) return nvml::kInvalidArgument;
  *count = is_split(call.state(), *found) ? kMigInstancesMax : 0;
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetMigDeviceHandleByIndex(nvml::Device device, unsigned index,
                                                           nvml::Device* instance) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find_gpu(device);
  if (found == nullptr || instance == nullptr) return nvml::kInvalidArgument;
  if (!is_split(call.state(), *found)) return nvml::kNotSupported;
  if (index >= static_cast<unsigned>(kMigInstancesMax)) return nvml::kInvalidArgument;
  const std::vector<Device>& devices = call.state().devices;
  for (std::size_t place = 0; place < devices.size(); ++place) {
    const std::optional<MigInstance>& mig = devices[place].facts.mig;
    if (!mig || mig->parent != found->facts.slot || static_cast<unsigned>(mig->index) != index)
      continue;
    *instance = nvml_handle(place);
    return nvml::kSuccess;
  }
  return nvml::kNotFound;
}

nvml::Return berth_sim_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml::Device instance,
                                                                    nvml::Device* device) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find_instance(instance);
  if (found == nullptr || device == nullptr) return nvml::kInvalidArgument;
  *device = nvml_handle(static_cast<std::size_t>(found->facts.mig->parent));
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceIsMigDeviceHandle(nvml::Device device, unsigned* is_instance) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find(device);
  if (found == nullptr || is_instance == nullptr) return nvml::kInvalidArgument;
  *is_instance = found->facts.mig ? 1 : 0;
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetGpuInstanceId(nvml::Device device, unsigned* id) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find_instance(device);
  if (found == nullptr || id == nullptr) return nvml::kInvalidArgument;
  *id = found->facts.mig->gpu_instance_id();
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetComputeInstanceId(nvml::Device device, unsigned* id) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find_instance(device);
  if (found == nullptr || id == nullptr) return nvml::kInvalidArgument;
  *id = found->facts.mig->compute_instance_id();
  return nvml::kSuccess;
}

// Video and image engines are not simulated: an instance has none.
nvml::Return berth_sim_nvmlDeviceGetAttributes_v2(nvml::Device device,
                                                  nvml::DeviceAttributes* attributes) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find(device);
  if (found == nullptr || attributes == nullptr) return nvml::kInvalidArgument;
  if (!found->facts.mig) return nvml::kNotSupported;
  const MigInstance& mig = *found->facts.mig;
  *attributes = {};
  attributes->multiprocessorCount = static_cast<unsigned>(mig.multiprocessors());
  attributes->sharedCopyEngineCount = static_cast<unsigned>(mig.compute_slices);
  attributes->gpuInstanceSliceCount = static_cast<unsigned>(mig.compute_slices);
  attributes->computeInstanceSliceCount = static_cast<unsigned>(mig.compute_slices);
  attributes->memorySizeMB = found->memory->bytes_total() / 1_MiB;
  return nvml::kSuccess;
}

}  // namespace berth::sim
