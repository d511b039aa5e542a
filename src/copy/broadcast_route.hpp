// SPDX-License-Identifier: Apache-2.0
// The order in which a broadcast visits devices: a pure function of facts.
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
/// device is the one with the best path to the last: by access, then by the driver's rank, then by
/// the topology between them, then in the order of `devices`.
std::vector<std::size_t> chain_order(Device first, std::span<const Device> devices,
                                     const PeersOf& peers);

/// Indices into `devices` in groups, each index in one. Each device of a group has access to all
/// others of it; a device without access is a group of one. The order is that of a chain from the
/// first of the group.
std::vector<std::vector<std::size_t>> islands(std::span<const Device> devices,
                                              const PeersOf& peers);

}  // namespace berth
