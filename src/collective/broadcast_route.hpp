// SPDX-License-Identifier: Apache-2.0
// The order of devices in a broadcast: a pure function of facts.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "berth/device.hpp"
#include "berth/device_facts.hpp"

namespace berth {

/// As DeviceRegistry::peer().
using PeersOf = std::function<const PeerFacts&(Device from, Device to)>;

/// Indices into `devices`, each once, in the order of a chain that begins at `first`. The next
/// device is the one with the best path from the last: compared by access, then by the driver's
/// performance rank, then by the topology, then by the order of `devices`.
std::vector<std::size_t> chain_order(Device first, std::span<const Device> devices,
                                     const PeersOf& peers);

/// Partitions the indices into `devices` into groups. Each device of a group has access to all
/// others of the group; a device without access is a group of one. A group has the order of a chain
/// from its first device.
std::vector<std::vector<std::size_t>> islands(std::span<const Device> devices,
                                              const PeersOf& peers);

}  // namespace berth
