// SPDX-License-Identifier: Apache-2.0
// The number of pages that this process can still touch. Linux overcommits: a process that touches
// too many pages is killed, while a driver refuses a request for too much memory.
#pragma once

#include <cstddef>
#include <string>

namespace berth {

/// The minimum of the memory available on the machine and the memory left to the process's control
/// group (version 2). File pages that can be dropped count as free. The maximum value if neither is
/// known.
/// Source   Linux, Documentation/filesystems/proc.rst (MemAvailable), admin-guide/cgroup-v2.rst.
/// Errors   None: values that cannot be read are unknown.
[[nodiscard]] std::size_t host_room_bytes(const std::string& meminfo = "/proc/meminfo",
                                          const std::string& control_group = "/sys/fs/cgroup");

}  // namespace berth
