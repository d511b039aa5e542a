// SPDX-License-Identifier: Apache-2.0
// What a simulator takes from the process, and must give back with its end.
#pragma once

#include <cstddef>

namespace berth::fuzz {

struct HostProcess {
  std::size_t files = 0;  ///< open ones
  std::size_t threads = 0;
  std::size_t device_mappings = 0;  ///< of simulated devices' memory

  bool operator==(const HostProcess&) const = default;
};

HostProcess look_at_process();
/// Whether the process is like that; soon counts, since a thread that was joined is listed a little
/// longer.
bool is_process_like(const HostProcess& before);

}  // namespace berth::fuzz
