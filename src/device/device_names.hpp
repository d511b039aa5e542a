// SPDX-License-Identifier: Apache-2.0
// Names of devices: UUIDs and PCI addresses, which CUDA, NVML and the kernel driver write in
// different ways.
#pragma once

#include <cuda.h>

#include <string>
#include <string_view>

namespace berth {

/// "GPU-" and 8-4-4-4-12 hexadecimal digits, in lower case.
std::string device_uuid_text(const CUuuid& uuid);
/// "MIG-" and the same.
std::string instance_uuid_text(const CUuuid& uuid);

/// Whether `text` is written as device_uuid_text() writes; case does not matter.
bool is_device_uuid(std::string_view text);

/// "0000:1a:00.0" or "00000000:1A:00.0".
bool is_pci_address(std::string_view text);
/// With a domain of eight digits, in upper case, so that text order is PCI order:
/// "00000000:1A:00.0". Text that is not an address becomes some text that is not one.
std::string long_pci_address(std::string_view address);

}  // namespace berth
