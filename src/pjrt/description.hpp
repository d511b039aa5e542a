// SPDX-License-Identifier: Apache-2.0
// What a plug-in tells of a device, of a client or of a topology.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "berth/device_backend.hpp"

#include "pjrt/api.hpp"

namespace berth::pjrt {

/// Appends attributes; one of them may be the memory of the device. A value that berth does not
/// know is left out, and so is a name that is there already.
void add_attributes(DeviceDescription& described, std::span<const NamedValue> values);

/// Errors  Exceptions of the plug-in.
[[nodiscard]] DeviceDescription describe(const Api& api, Description* description);

/// "PJRT cpu 0.1, API 0.81". Of the version only its first line is used.
[[nodiscard]] std::string name_of(const Api& api, std::string_view platform,
                                  std::string_view version);

}  // namespace berth::pjrt
