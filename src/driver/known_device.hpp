// SPDX-License-Identifier: Apache-2.0
// A physical device as a source other than CUDA reports it: NVML, or the kernel driver's folder in
// /proc. Unknown properties are empty, 0 or nullopt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace berth {

/// A compute instance of MIG.
struct KnownInstance {
  std::string uuid;  ///< "MIG-" and 8-4-4-4-12 hexadecimal digits
  std::string name;
  std::uint64_t memory_bytes = 0;  ///< of the instance
  std::optional<unsigned> gpu_instance;
  std::optional<unsigned> compute_instance;
};

/// Has a UUID, an address, or both.
struct KnownDevice {
  std::string uuid;        ///< "GPU-" and 8-4-4-4-12 hexadecimal digits
  std::string pci_bus_id;  ///< "00000000:1A:00.0" or "0000:1a:00.0"
  std::string name;
  std::uint64_t memory_bytes = 0;
  std::optional<bool> mig_mode;
  std::vector<KnownInstance> instances;
  bool lost = false;                     ///< it no longer responds
  std::optional<unsigned> minor_number;  ///< of its file /dev/nvidia<N>
};

}  // namespace berth
