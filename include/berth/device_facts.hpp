// SPDX-License-Identifier: Apache-2.0
// Properties of a visible device, and the connection between two devices: the results of
// DeviceRegistry::facts(), peer() and memory_use(). nullopt means unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "berth/cpp20.hpp"
#include "berth/export.h"

namespace berth {

/// Which processes may have contexts on a device.
enum class ComputeMode : std::uint8_t {
  shared,             ///< every process; the default
  prohibited,         ///< no process
  exclusive_process,  ///< one process at a time
};

/// Properties of a device that do not change while a process runs.
struct DeviceFacts {
  /// "9.0" as 9 and 0.
  std::optional<int> compute_capability_major;
  std::optional<int> compute_capability_minor;
  std::optional<int> multiprocessors;  ///< of a MIG instance, its own
  std::optional<int> copy_engines;
  std::optional<int> host_numa_node;  ///< the machine's NUMA node that is closest to the device
  std::optional<ComputeMode> compute_mode;
};

/// The connection between two devices, the closest first.
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
  std::optional<bool> native_atomics;   ///< all atomic operations work across the link
  std::optional<int> performance_rank;  ///< relative; lower is faster, 0 is the fastest
  std::optional<PeerLink> link;         ///< if NVML reports it
};

/// The memory of one process on a device.
struct ProcessMemory {
  unsigned pid;  ///< as NVML sees it: in a container, the id outside the container
  std::optional<std::uint64_t> bytes;  ///< on this device
};

/// The use of a device's memory by all processes, as NVML reports it.
struct DeviceMemoryUse {
  std::optional<std::uint64_t> bytes_total;
  std::optional<std::uint64_t> bytes_used;  ///< by all processes and the driver itself
  /// Each process once; nullopt if NVML does not list them.
  std::optional<std::vector<ProcessMemory>> processes;
};

/// The CUDA version of the headers that berth was built with, as cuDriverGetVersion counts: 13000
/// is 13.0. Runtime::driver() has the driver's version.
BERTH_API int toolkit_version() noexcept;

}  // namespace berth
