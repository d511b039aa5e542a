// SPDX-License-Identifier: Apache-2.0
// What a visible device is and can do, and how two of them are connected: the values that
// DeviceRegistry::facts(), peer() and memory_use() give. nullopt is "nobody tells".
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "berth/export.h"

namespace berth {

/// Who may have contexts on a device.
enum class ComputeMode : std::uint8_t {
  shared,             ///< every process; the default
  prohibited,         ///< nobody
  exclusive_process,  ///< one process at a time
};

/// What does not change while a process runs.
struct DeviceFacts {
  /// "9.0" as 9 and 0.
  std::optional<int> compute_capability_major;
  std::optional<int> compute_capability_minor;
  std::optional<int> multiprocessors;  ///< of a MIG instance, its own
  std::optional<int> copy_engines;
  std::optional<int> host_numa_node;  ///< the machine's node that is closest to the device
  std::optional<ComputeMode> compute_mode;
};

/// What lies between two devices, the closest first.
enum class PeerLink : std::uint8_t {
  same_device,  ///< also two MIG instances of one device
  nvlink,
  pci_switch,   ///< one PCI switch, or several
  host_bridge,  ///< one PCI host bridge of the processor
  numa_node,    ///< several host bridges of one NUMA node
  system,       ///< several NUMA nodes
};

/// One direction between two devices.
struct PeerFacts {
  std::optional<bool> access;           ///< `from` can be given access to the memory of `to`
  std::optional<bool> native_atomics;   ///< all atomic operations work across
  std::optional<int> performance_rank;  ///< relative; lower is faster, 0 the fastest
  std::optional<PeerLink> link;         ///< where NVML tells
};

struct ProcessMemory {
  unsigned pid;                        ///< as NVML sees it: in a container, outside of that
  std::optional<std::uint64_t> bytes;  ///< on this device
};

/// Who holds a device's memory, as NVML says it: also what other processes hold.
struct MemoryUse {
  std::optional<std::uint64_t> bytes_total;
  std::optional<std::uint64_t> bytes_used;  ///< by all processes and the driver itself
  /// Each once; nullopt where NVML does not tell.
  std::optional<std::vector<ProcessMemory>> processes;
};

/// The CUDA version whose headers berth was built with, as cuDriverGetVersion counts: 13000 is
/// 13.0. Runtime::driver() has the driver's.
BERTH_API int toolkit_version() noexcept;

}  // namespace berth
