// SPDX-License-Identifier: Apache-2.0
// Everything that berth knows about itself at one moment, and its text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "berth/copy_counters.hpp"
#include "berth/device_registry.hpp"
#include "berth/export.h"
#include "berth/memory_snapshot.hpp"

namespace berth {

struct DriverInfo {
  std::string name;     ///< "cuda", "sim", or the path of a driver library
  bool usable = false;  ///< found, complete and initialised
  std::string problem;  ///< one line where not usable
  int version = 0;      ///< 12020 is CUDA 12.2; 0 where not usable
};

struct DriverCallCount {
  std::string function;  ///< NVIDIA's name, "cuMemCreate"
  std::uint64_t calls;
};

struct Statistics {
  DriverInfo driver;
  std::vector<DeviceInfo> devices;
  std::vector<MemorySnapshot>
      allocators;  ///< of each device in use and its pools, then pinned, then cpu
  std::vector<DriverCallCount>
      driver_calls;  ///< functions called at least once, in the list's order
  CopyCounters copies;
};

/// For people: driver, devices, and for each allocator its counters and fragmentation, on 80
/// columns.
[[nodiscard]] BERTH_API std::string to_text(const Statistics& statistics);
/// For programs: one JSON object with the fields of Statistics under their own names.
[[nodiscard]] BERTH_API std::string to_json(const Statistics& statistics);

/// The sums that must hold between the counters and the blocks of a snapshot. Returns one line for
/// each that does not; empty where all add up.
[[nodiscard]] BERTH_API std::vector<std::string> find_discrepancies(const MemorySnapshot& snapshot);

}  // namespace berth
