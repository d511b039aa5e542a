// SPDX-License-Identifier: Apache-2.0
// What one entry of CUDA_VISIBLE_DEVICES names, whatever stands beside it. visible_devices.hpp has
// the sources.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "device/visible_devices.hpp"

namespace berth {

enum class EntryKind { ordinal, device_uuid, instance_name };

EntryKind kind_of(std::string_view entry);

struct NamedPlace {
  std::optional<Place> place;
  /// Why it names nothing, or something else than it seems to; empty if the entry is -1, which
  /// ends the list on purpose.
  std::string problem;
};

/// Reads `entry` as its own kind says.
NamedPlace find_place(std::string_view entry, const Machine& machine);

}  // namespace berth
