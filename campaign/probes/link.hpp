// SPDX-License-Identifier: Apache-2.0
// How a device is connected, which CUDA does not tell: NVML and Linux do, as far as this machine
// has them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace berth::campaign {

/// What is known of the device at a PCI address, as cuDeviceGetPCIBusId writes it: (fact, value).
/// Links are idle when nothing has been copied for a while, and slower then.
std::vector<std::pair<std::string, std::string>> link_facts(const std::string& pci_address);

}  // namespace berth::campaign
