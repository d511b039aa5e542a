// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER as the driver reads them at cuInit. Written apart from
// the product's reader on purpose: one table of cases judges both. Source: CUDA Programming Guide,
// "CUDA Environment Variables".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::sim {

/// The entries of `uuids` (in the order in which CUDA counts) that `text` makes visible, in the
/// order in which it names them. nullopt text: all. Ordinals are decimal and may be followed by
/// rubbish, as strtol would have it; UUIDs may be cut short where that is unique. An entry that
/// names nothing ends the list; one that names a device again leaves none.
std::vector<int> visible_devices(const std::optional<std::string>& text,
                                 const std::vector<std::string>& uuids);

}  // namespace berth::sim
