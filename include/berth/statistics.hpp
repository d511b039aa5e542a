// SPDX-License-Identifier: Apache-2.0
// All statistics of a Runtime at one moment, and their text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "berth/copy_counters.hpp"
#include "berth/device_buffer.hpp"
#include "berth/device_registry.hpp"
#include "berth/export.h"
#include "berth/memory_snapshot.hpp"

namespace berth {

/// The driver of a Runtime.
struct DriverInfo {
  std::string name;     ///< "cuda", "sim", or the path of a driver library
  bool usable = false;  ///< found, complete and initialized
  std::string problem;  ///< one line if not usable
  int version = 0;      ///< 12020 is CUDA 12.2; 0 if not usable
};

/// The number of calls of a driver function.
struct DriverCallCount {
  std::string function;  ///< NVIDIA's name, "cuMemCreate"
  std::uint64_t calls;
};

/// A device of a backend.
struct BackendDevice {
  Device device;
  std::string backend;  ///< DeviceBackend::name()
  DeviceDescription description;
  BackendMemory memory;  ///< as the backend reports it; empty if it fails to
  BufferCounters buffers;
};

/// All statistics of a Runtime.
struct Statistics {
  DriverInfo driver;
  std::vector<DeviceInfo> devices;
  std::vector<MemorySnapshot>
      allocators;  ///< each device in use and its pools, then pinned, then cpu
  std::vector<DriverCallCount>
      driver_calls;  ///< functions called at least once, in the order of the list
  CopyCounters copies;
  std::vector<BackendDevice> backend_devices;  ///< by type, then by ordinal
};

/// Formats for people: driver, devices, and for each allocator its counters and fragmentation, on
/// 80 columns.
[[nodiscard]] BERTH_API std::string to_text(const Statistics& statistics);
/// Formats for programs: one JSON object with the fields of Statistics under their own names.
[[nodiscard]] BERTH_API std::string to_json(const Statistics& statistics);

/// Checks the sums that must agree between the counters and the blocks of a snapshot. Returns one
/// line for each violation; empty if all agree.
[[nodiscard]] BERTH_API std::vector<std::string> find_discrepancies(const MemorySnapshot& snapshot);

}  // namespace berth
