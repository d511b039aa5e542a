// SPDX-License-Identifier: Apache-2.0
// CUDA_DEVICE_ORDER: the order in which CUDA counts the devices before CUDA_VISIBLE_DEVICES selects
// some. A pure function: no driver, no environment.
//
// Source: CUDA Programming Guide, "CUDA Environment Variables". PCI_BUS_ID is the order of PCI
// addresses. FASTEST_FIRST, which is also the default, is a heuristic of the driver that no source
// describes. Assumed: any other value means FASTEST_FIRST too.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace berth {

struct DeviceOrderQuestion {
  std::optional<std::string> order;    ///< CUDA_DEVICE_ORDER; nullopt: not set
  std::optional<std::string> visible;  ///< CUDA_VISIBLE_DEVICES; nullopt: not set
  std::size_t devices = 0;             ///< all, numbered from 0 in the order of their PCI addresses
  /// The devices that the driver shows, in its order; a MIG instance counts as its device.
  std::vector<std::size_t> shown;
};

/// The devices in CUDA's order.
///
/// Under FASTEST_FIRST, the shown devices reveal a part of the driver's order: all of it if
/// CUDA_VISIBLE_DEVICES is not set, otherwise the position of each device that the variable names
/// by an ordinal. Assumed: devices that are not shown fill the positions between in PCI order.
std::vector<std::size_t> cuda_order(const DeviceOrderQuestion& question);

}  // namespace berth
