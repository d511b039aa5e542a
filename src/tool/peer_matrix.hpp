// SPDX-License-Identifier: Apache-2.0
// A table of the access between visible devices, and of their links.
#pragma once

#include <string>

#include "berth/device_registry.hpp"

namespace berth::tool {

/// At most 80 columns: several tables below each other if there are many devices, and a legend.
/// Empty if fewer than two devices are visible.
std::string peer_matrix(const DeviceRegistry& devices);

}  // namespace berth::tool
