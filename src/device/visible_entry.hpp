// SPDX-License-Identifier: Apache-2.0
// The meaning of one entry of CUDA_VISIBLE_DEVICES, independent of the others. visible_devices.hpp
// has the sources.
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
  /// The reason why it names no device, or another device than its text suggests; empty if the
  /// entry is -1, which ends the list on purpose.
  std::string problem;
};

/// Reads `entry` by the rules for its kind of entry.
NamedPlace find_place(std::string_view entry, const Machine& machine);

}  // namespace berth
