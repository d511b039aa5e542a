// SPDX-License-Identifier: Apache-2.0
// The number of pages that this process can still touch. Linux overcommits: a process that touches
// too many pages is killed, while a driver that is asked for too much memory only refuses.
#pragma once

#include <cstddef>
#include <string>

namespace berth {

/// The least of what the machine has available and what the process's control group (version 2) has
/// left, file pages that can be dropped counted as free. The maximum where neither is known.
/// Source   Linux, Documentation/filesystems/proc.rst (MemAvailable), admin-guide/cgroup-v2.rst.
/// Errors   None: what cannot be read is unknown.
[[nodiscard]] std::size_t host_room_bytes(const std::string& meminfo = "/proc/meminfo",
                                          const std::string& control_group = "/sys/fs/cgroup");

}  // namespace berth
