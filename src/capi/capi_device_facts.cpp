// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

static_assert(int(ComputeMode::exclusive_process) == BERTH_COMPUTE_MODE_EXCLUSIVE_PROCESS);
static_assert(int(PeerLink::nvlink) == BERTH_PEER_LINK_NVLINK);
static_assert(int(PeerLink::system) == BERTH_PEER_LINK_SYSTEM);

namespace {

constexpr int kUnknown = -1;

/// Numbers, booleans and enumerators.
template <class T>
int or_unknown(const std::optional<T>& value) {
  return value ? static_cast<int>(*value) : kUnknown;
}

std::uint64_t or_unknown_bytes(const std::optional<std::uint64_t>& bytes) {
  return bytes.value_or(UINT64_MAX);
}

}  // namespace

berth_status berth_device_get_facts(berth_runtime* runtime, berth_device device,
                                    berth_device_facts* facts) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require_struct(facts, "facts");
    const DeviceFacts& known = devices.facts(to_device(device));
    write_struct({.struct_size = 0,
                  .compute_capability_major = or_unknown(known.compute_capability_major),
                  .compute_capability_minor = or_unknown(known.compute_capability_minor),
                  .multiprocessors = or_unknown(known.multiprocessors),
                  .copy_engines = or_unknown(known.copy_engines),
                  .host_numa_node = or_unknown(known.host_numa_node),
                  .compute_mode = or_unknown(known.compute_mode)},
                 out);
  });
}

berth_status berth_device_enable_peer_access(berth_runtime* runtime, berth_device user,
                                             berth_device owner) {
  return guarded(
      [&] { to_runtime(runtime).enable_peer_access(to_device(user), to_device(owner)); });
}

berth_status berth_device_get_peer_facts(berth_runtime* runtime, berth_device from, berth_device to,
                                         berth_peer_facts* facts) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require_struct(facts, "facts");
    const PeerFacts& known = devices.peer(to_device(from), to_device(to));
    write_struct({.struct_size = 0,
                  .access = or_unknown(known.access),
                  .native_atomics = or_unknown(known.native_atomics),
                  .performance_rank = or_unknown(known.performance_rank),
                  .link = or_unknown(known.link)},
                 out);
  });
}

berth_status berth_device_get_memory_use(berth_runtime* runtime, berth_device device,
                                         berth_device_memory_use* use,
                                         berth_process_memory* processes, size_t capacity) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require_struct(use, "use");
    if (capacity > 0) require(processes, "processes");
    const DeviceMemoryUse known = devices.memory_use(to_device(device));
    std::uint64_t count = UINT64_MAX;
    if (known.processes) {
      count = known.processes->size();
      for (std::size_t index = 0; index < std::min<std::size_t>(count, capacity); ++index) {
        const ProcessMemory& process = (*known.processes)[index];
        processes[index] = {.pid = process.pid, .bytes = or_unknown_bytes(process.bytes)};
      }
    }
    write_struct({.struct_size = 0,
                  .bytes_total = or_unknown_bytes(known.bytes_total),
                  .bytes_used = or_unknown_bytes(known.bytes_used),
                  .process_count = count},
                 out);
  });
}

berth_status berth_device_get_utilization(berth_runtime* runtime, berth_device device,
                                          int* percent) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require(percent, "percent");
    out = or_unknown(devices.utilization_percent(to_device(device)));
  });
}

berth_status berth_nvml_get_problem(berth_runtime* runtime, const char** problem) {
  return guarded([&] {
    const DeviceRegistry& devices = to_runtime(runtime).devices();
    auto& out = require(problem, "problem");
    out = devices.nvml_problem().c_str();
  });
}

int berth_toolkit_version(void) {
  return toolkit_version();
}
