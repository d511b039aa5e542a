// SPDX-License-Identifier: Apache-2.0
// The ways that a broadcast takes between devices. No driver, no memory: from facts to an order.
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

/// Indices into `devices`, each once, as a chain that begins at `first` visits them: the next is
/// always the one that reaches the last best. By access first, then by the driver's rank, then by
/// what lies between them, then as they stand.
std::vector<std::size_t> chain_order(Device first, std::span<const Device> devices,
                                     const PeersOf& peers);

/// Indices into `devices` in groups, each index in one: of a group each has access to all others,
/// and devices alone are groups of one. The order is that of a chain from the group's first.
std::vector<std::vector<std::size_t>> islands(std::span<const Device> devices,
                                              const PeersOf& peers);

}  // namespace berth
