// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER as the driver reads them in cuInit. Deliberately
// independent of the library's own reader: one table of cases tests both. Source: CUDA Programming
// Guide, "CUDA Environment Variables".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::sim {

/// The entries of `uuids` (in CUDA's order) that `text` makes visible, in the order of `text`.
/// nullopt text: all. Ordinals are decimal and may be followed by other characters, as in strtol;
/// UUIDs may be abbreviated if unambiguous. An entry that matches no device ends the list; a
/// duplicate device empties it.
std::vector<int> visible_devices(const std::optional<std::string>& text,
                                 const std::vector<std::string>& uuids);

}  // namespace berth::sim
