// SPDX-License-Identifier: Apache-2.0
// The host functions that stand in for kernels, by the names of the kernels. They belong to the
// process and outlive simulators. Guarded by a lock of their own.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "berth/sim.hpp"

namespace berth::sim {

/// Instead of what the name had; an empty function removes that.
void set_stand_in(const std::string& name, KernelStandIn stand_in);
/// By the name of the kernel, or, where it is mangled, by that of the source without parameters.
/// Null: there is none.
std::shared_ptr<const KernelStandIn> find_stand_in(std::string_view kernel);

}  // namespace berth::sim
