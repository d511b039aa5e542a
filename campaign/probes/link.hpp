// SPDX-License-Identifier: Apache-2.0
// The connection of a device, which CUDA does not report: NVML and Linux do, as far as this machine
// has them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace berth::campaign {

/// The facts about the device at a PCI address, as cuDeviceGetPCIBusId writes it: (fact, value). A
/// link without recent copies is idle, and slower then.
std::vector<std::pair<std::string, std::string>> link_facts(const std::string& pci_address);

}  // namespace berth::campaign
