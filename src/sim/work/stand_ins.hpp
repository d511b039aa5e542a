// SPDX-License-Identifier: Apache-2.0
// The host functions that replace kernels, by kernel name. They belong to the process and outlive
// simulators. Guarded by sim::mutex.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "berth/sim.hpp"

#include "base/mutex.hpp"
#include "sim/lock.hpp"

namespace berth::sim {

/// Replaces the function of that name; an empty function removes it.
void set_stand_in(const std::string& name, KernelStandIn stand_in) BERTH_EXCLUDES(mutex);
/// By kernel name, or for a mangled name also by the source name without parameters. Null if there
/// is none.
std::shared_ptr<const KernelStandIn> find_stand_in(std::string_view kernel) BERTH_EXCLUDES(mutex);

}  // namespace berth::sim
