// SPDX-License-Identifier: Apache-2.0
// Memory, and the processes that use it. Simulated devices belong to one process, so this process
// is the only one on a device. Queries of a device that a fault has lost fail.
// Source: NVML API Reference Guide, "Device Queries".
#include <unistd.h>

#include "sim/nvml/nvml_call.hpp"

namespace berth::sim {
namespace {

struct Bytes {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
};

/// Calls `visit` with the parts of `device` that have memory: itself, or its instances in MIG mode.
template <class Visit>
void for_each_part(const State& state, const Device& device, Visit&& visit) {
  if (device.facts.mig || !state.config.mig.contains(device.facts.slot)) {
    visit(device);
    return;
  }
  for (const Device& other : state.devices)
    if (other.facts.mig && other.facts.mig->parent == device.facts.slot) visit(other);
}

Bytes bytes_of(const State& state, const Device& device) {
  Bytes bytes{device.memory->bytes_total(), device.memory->bytes_total()};
  for_each_part(state, device, [&](const Device& part) {
    bytes.free -= part.memory->bytes_total() - part.memory->bytes_free();
  });
  return bytes;
}

/// Whether this process has a context or memory on `part`.
bool uses(State& state, const Device& part) {
  bool found = part.memory->bytes_used() != 0;
  state.contexts.for_each(
      [&](const Context& context) { found |= context.device == part.facts.slot; });
  return found;
}

std::vector<nvml::ProcessInfo> compute_processes(State& state, const Device& device) {
  std::vector<nvml::ProcessInfo> processes;
  for_each_part(state, device, [&](const Device& part) {
    if (!uses(state, part)) return;
    const std::optional<MigInstance>& mig = part.facts.mig;
    processes.push_back({static_cast<unsigned>(state.process), part.memory->bytes_used(),
                         mig ? mig->gpu_instance_id() : nvml::kNoInstance,
                         mig ? mig->compute_instance_id() : nvml::kNoInstance});
  });
  return processes;
}

void give(const nvml::ProcessInfo& found, nvml::ProcessInfo& process) {
  process = found;
}
void give(const nvml::ProcessInfo& found, nvml::ProcessInfoV1& process) {
  process = {found.pid, found.usedGpuMemory};
}

/// `Info` is one of the two layouts.
template <class Info>
nvml::Return write_processes(const std::vector<nvml::ProcessInfo>& found, unsigned* count,
                             Info* processes) {
  const unsigned room = *count;
  *count = static_cast<unsigned>(found.size());
  if (found.size() > room) return nvml::kInsufficientSize;
  if (!found.empty() && processes == nullptr) return nvml::kInvalidArgument;
  for (std::size_t i = 0; i < found.size(); ++i) give(found[i], processes[i]);
  return nvml::kSuccess;
}

template <class Info>
nvml::Return list_compute_processes(nvml::Device device, unsigned* count, Info* processes) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find(device);
  if (found == nullptr || count == nullptr) return nvml::kInvalidArgument;
  if (found->lost) return nvml::kGpuIsLost;
  return write_processes(compute_processes(call.state(), *found), count, processes);
}

/// Processes that are never simulated: graphics, and clients of MPS.
nvml::Return write_no_processes(nvml::Device device, unsigned* count) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  if (call.find(device) == nullptr || count == nullptr) return nvml::kInvalidArgument;
  *count = 0;
  return nvml::kSuccess;
}

}  // namespace

nvml::Return berth_sim_nvmlDeviceGetMemoryInfo(nvml::Device device, nvml::Memory* memory) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find(device);
  if (found == nullptr || memory == nullptr) return nvml::kInvalidArgument;
  if (found->lost) return nvml::kGpuIsLost;
  const Bytes bytes = bytes_of(call.state(), *found);
  *memory = {bytes.total, bytes.free, bytes.total - bytes.free};
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetMemoryInfo_v2(nvml::Device device, nvml::MemoryV2* memory) {
  NvmlCall call;
  if (call.refusal() != nvml::kSuccess) return call.refusal();
  const Device* found = call.find(device);
  if (found == nullptr || memory == nullptr) return nvml::kInvalidArgument;
  if (found->lost) return nvml::kGpuIsLost;
  if (memory->version != nvml::kMemoryV2Version) return nvml::kArgumentVersionMismatch;
  const Bytes bytes = bytes_of(call.state(), *found);
  *memory = {nvml::kMemoryV2Version, bytes.total, 0, bytes.free, bytes.total - bytes.free};
  return nvml::kSuccess;
}

nvml::Return berth_sim_nvmlDeviceGetComputeRunningProcesses_v3(nvml::Device device, unsigned* count,
                                                               nvml::ProcessInfo* processes) {
  return list_compute_processes(device, count, processes);
}

nvml::Return berth_sim_nvmlDeviceGetComputeRunningProcesses(nvml::Device device, unsigned* count,
                                                            nvml::ProcessInfoV1* processes) {
  return list_compute_processes(device, count, processes);
}

nvml::Return berth_sim_nvmlDeviceGetGraphicsRunningProcesses(nvml::Device device, unsigned* count,
                                                             nvml::ProcessInfoV1*) {
  return write_no_processes(device, count);
}

nvml::Return berth_sim_nvmlDeviceGetMPSComputeRunningProcesses(nvml::Device device, unsigned* count,
                                                               nvml::ProcessInfoV1*) {
  return write_no_processes(device, count);
}

nvml::Return berth_sim_nvmlDeviceGetGraphicsRunningProcesses_v3(nvml::Device device,
                                                                unsigned* count,
                                                                nvml::ProcessInfo*) {
  return write_no_processes(device, count);
}

nvml::Return berth_sim_nvmlDeviceGetMPSComputeRunningProcesses_v3(nvml::Device device,
                                                                  unsigned* count,
                                                                  nvml::ProcessInfo*) {
  return write_no_processes(device, count);
}

}  // namespace berth::sim
