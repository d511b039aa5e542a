// SPDX-License-Identifier: Apache-2.0
// The host functions that replace kernels, by kernel name. They belong to the process and outlive
// simulators. Guarded by a lock of their own.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "berth/sim.hpp"

namespace berth::sim {

/// Replaces the function of that name; an empty function removes it.
void set_stand_in(const std::string& name, KernelStandIn stand_in);
/// By kernel name, or for a mangled name also by the source name without parameters. Null if there
/// is none.
std::shared_ptr<const KernelStandIn> find_stand_in(std::string_view kernel);

}  // namespace berth::sim
