// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <span>

namespace berth::sim {

/// Whether there is a launch, with its attributes.
inline bool is_complete(const CUlaunchConfig* config) {
  return config != nullptr && (config->numAttrs == 0 || config->attrs != nullptr);
}

/// The first attribute with this id; null if the launch has none.
inline const CUlaunchAttribute* find_attribute(const CUlaunchConfig& config,
                                               CUlaunchAttributeID id) {
  for (const CUlaunchAttribute& attribute : std::span(config.attrs, config.numAttrs))
    if (attribute.id == id) return &attribute;
  return nullptr;
}

}  // namespace berth::sim
