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
  /// What the driver shows, in its order; an instance of MIG is its device.
  std::vector<std::size_t> shown;
};

/// The devices in CUDA's order.
///
/// Under FASTEST_FIRST what the driver shows tells a part of its order: all of it where
/// CUDA_VISIBLE_DEVICES is not set, and the place of each device that it names by an ordinal.
/// Assumed: the others, which the driver does not show, fill the places between in PCI order.
std::vector<std::size_t> cuda_order(const DeviceOrderQuestion& question);

}  // namespace berth
