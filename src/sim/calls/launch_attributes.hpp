// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <span>

#include "sim/state.hpp"

namespace berth::sim {

/// Whether there is a launch, with its attributes.
inline bool is_complete(const CUlaunchConfig* config) {
  return config != nullptr && (config->numAttrs == 0 || config->attrs != nullptr);
}

inline std::span<const CUlaunchAttribute> attributes_of(const CUlaunchConfig& config) {
  return {config.attrs, config.numAttrs};
}

/// The first attribute with this id; null if the launch has none.
inline const CUlaunchAttribute* find_attribute(const CUlaunchConfig& config,
                                               CUlaunchAttributeID id) {
  for (const CUlaunchAttribute& attribute : attributes_of(config))
    if (attribute.id == id) return &attribute;
  return nullptr;
}

/// Whether kernel nodes can have the attribute.
inline bool is_of_nodes(CUlaunchAttributeID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return true;
    default:
      return false;
  }
}

/// Whether work of the device in `slot` can have it.
bool is_window(const State& state, int slot, const CUaccessPolicyWindow& window);

inline bool is_domain(CUlaunchMemSyncDomain domain) {
  return domain == CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT || domain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
}

}  // namespace berth::sim
