// SPDX-License-Identifier: Apache-2.0
// The number of processors that the process may use. A container often shows all of the machine's
// processors, and permits only a part.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace berth {

/// Processors' worth of time that control groups allow the process: the least of its own group's
/// and those above it, rounded up; nullopt if none is bounded, or there are no control groups.
/// `root` is the folder of the file systems /proc and /sys. Source: Linux,
/// Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst
/// (cpu.cfs_quota_us).
std::optional<std::size_t> processor_quota(const std::string& root = {});

/// 1 or more: the processors that the process may run on, at most the quota.
std::size_t processors_allowed();

}  // namespace berth
