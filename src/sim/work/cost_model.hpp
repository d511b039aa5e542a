// SPDX-License-Identifier: Apache-2.0
// What calls and work take in virtual time. Figures are of one data-centre GPU and its host; what
// matters for conclusions is their ratio. The .cpp has the table, each figure with its source.
#pragma once

#include <cstdint>

#include "sim/functions.hpp"

namespace berth::sim {

/// What does a piece of work. A device has one of each kind, but for the processors.
enum class Engine : std::uint8_t {
  none,              ///< work that only orders, or runs on the host
  host_to_device,    ///< copy engine
  device_to_host,    ///< copy engine
  device_to_device,  ///< link to other devices
  processors,        ///< kernels, fills, and copies inside one device
  count,
};

/// How many pieces of work an engine does at a time.
int concurrency(Engine engine);

/// The calling thread's time for a call that waits for nothing.
std::uint64_t call_ns(Function function);

/// From the start of a copy or fill of `bytes` to its end.
std::uint64_t transfer_ns(Engine engine, std::uint64_t bytes);
/// The same for a copy of a batch that is not its first.
std::uint64_t further_transfer_ns(Engine engine, std::uint64_t bytes);
/// A copy between pageable memory and a device: the driver moves it through a buffer of its own.
std::uint64_t pageable_transfer_ns(std::uint64_t bytes);
/// A copy that the host does by itself.
std::uint64_t host_copy_ns(std::uint64_t bytes);
/// Making `bytes` of pinned memory, and pinning `bytes` that are there.
std::uint64_t pinned_allocation_ns(std::uint64_t bytes);
std::uint64_t registration_ns(std::uint64_t bytes);

/// What a host function waits for the driver's thread, and a kernel for its launch.
inline constexpr std::uint64_t kHostFunctionNs = 5'000;

}  // namespace berth::sim
