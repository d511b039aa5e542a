// SPDX-License-Identifier: Apache-2.0
// Addresses on the PCI bus, as cuDeviceGetByPCIBusId reads them.
#pragma once

#include <optional>
#include <string_view>

namespace berth::sim {

struct PciAddress {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;

  bool operator==(const PciAddress&) const = default;
};

/// "domain:bus:device.function", "domain:bus:device" or "bus:device.function", each hexadecimal;
/// nullopt for anything else.
std::optional<PciAddress> parse_pci_address(std::string_view text);

}  // namespace berth::sim
