// SPDX-License-Identifier: Apache-2.0
// A plug-in's description of a device, a client or a topology.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "berth/device_backend.hpp"

#include "pjrt/api.hpp"

namespace berth::pjrt {

/// Appends attributes; one of them may be the memory of the device. A value of an unknown type is
/// left out, and so is a name that already exists.
void add_attributes(DeviceDescription& described, std::span<const NamedValue> values);

/// Errors  Exceptions of the plug-in.
[[nodiscard]] DeviceDescription describe(const Api& api, Description* description);

/// "PJRT cpu 0.1, API 0.81". Only the first line of the version is used.
[[nodiscard]] std::string name_of(const Api& api, std::string_view platform,
                                  std::string_view version);

}  // namespace berth::pjrt
