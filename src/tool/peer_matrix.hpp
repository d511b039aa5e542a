// SPDX-License-Identifier: Apache-2.0
// Which visible device reaches the memory of which, and by what, as a table.
#pragma once

#include <string>

#include "berth/device_registry.hpp"

namespace berth::tool {

/// At most 80 columns: several tables below each other where there are many devices, and a legend.
/// Empty where fewer than two devices are visible.
std::string peer_matrix(const DeviceRegistry& devices);

}  // namespace berth::tool
