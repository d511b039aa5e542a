// SPDX-License-Identifier: Apache-2.0
// The cost of calls and work in virtual time. The figures are of one data-center GPU and its host;
// conclusions should rely only on their ratios. The .cpp has the table, each figure with its
// source.
#pragma once

#include <cstdint>

#include "sim/functions.hpp"

namespace berth::sim {

/// The engine that executes work. A device has one of each kind, except the processors.
enum class Engine : std::uint8_t {
  none,              ///< work that only orders, or runs on the host
  host_to_device,    ///< copy engine
  device_to_host,    ///< copy engine
  device_to_device,  ///< link to other devices
  processors,        ///< kernels, fills, and copies inside one device
  count,
};

/// The number of operations that an engine executes concurrently.
int concurrency(Engine engine);

/// The host time of a call that does not wait.
std::uint64_t call_ns(Function function);

/// The duration of a copy or fill of `bytes`.
std::uint64_t transfer_ns(Engine engine, std::uint64_t bytes);
/// The same for a copy of a batch after its first.
std::uint64_t further_transfer_ns(Engine engine, std::uint64_t bytes);
/// A copy between pageable memory and a device, through a buffer of the driver.
std::uint64_t pageable_transfer_ns(std::uint64_t bytes);
/// The engine whose rate pages of managed memory move at, from one device to another; -1: the host.
Engine route_of_pages(int from, int to);
/// A prefetch of managed memory by this route, or a use of it where it is, without latency.
std::uint64_t route_ns(Engine route, std::uint64_t bytes);
/// The moves of its pages to the device that uses them.
std::uint64_t page_migration_ns(Engine route, std::uint64_t bytes);
/// A copy by the host.
std::uint64_t host_copy_ns(std::uint64_t bytes);
/// Allocating `bytes` of pinned memory, and pinning existing `bytes`.
std::uint64_t pinned_allocation_ns(std::uint64_t bytes);
std::uint64_t registration_ns(std::uint64_t bytes);

/// The latency of a host function, and of a kernel launch.
inline constexpr std::uint64_t kHostFunctionNs = 5'000;

}  // namespace berth::sim
