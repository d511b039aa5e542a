// SPDX-License-Identifier: Apache-2.0
#include "sim/calls/launch_attributes.hpp"

#include <cstddef>

namespace berth::sim {
namespace {

bool is_access_property(CUaccessProperty property) {
  return property >= CU_ACCESS_PROPERTY_NORMAL && property <= CU_ACCESS_PROPERTY_PERSISTING;
}

}  // namespace

bool is_window(const State& state, int slot, const CUaccessPolicyWindow& window) {
  const Device& device = state.devices[static_cast<std::size_t>(slot)];
  const int most = device_attribute(state.config, device.facts,
                                    CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE)
                       .value_or(0);
  const bool fits = window.num_bytes <= static_cast<std::size_t>(most);
  const bool is_ratio = window.hitRatio >= 0 && window.hitRatio <= 1;
  return fits && is_ratio && is_access_property(window.hitProp) &&
         is_access_property(window.missProp) && window.missProp != CU_ACCESS_PROPERTY_PERSISTING;
}

}  // namespace berth::sim
