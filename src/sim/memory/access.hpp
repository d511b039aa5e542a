// SPDX-License-Identifier: Apache-2.0
// Access as cuMemSetAccess and cuMemPoolSetAccess describe it.
#pragma once

#include <cuda.h>

#include "sim/memory/address_space.hpp"

namespace berth::sim {

struct State;

/// Whether `description` is valid for memory on the device in slot `home`.
CUresult check_access(const State& state, const CUmemAccessDesc& description, int home);
/// Applies a description that passed check_access.
void apply_access(const State& state, const CUmemAccessDesc& description, DeviceSet& readers,
                  DeviceSet& writers);
/// What check_access accepts for a location; `slot` is set on success.
CUresult find_slot(const State& state, const CUmemLocation& location, int& slot);
CUmemAccess_flags access_of(DeviceSet readers, DeviceSet writers, int slot);

}  // namespace berth::sim
