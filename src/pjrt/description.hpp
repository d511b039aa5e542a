// SPDX-License-Identifier: Apache-2.0
// A plug-in's description of a device, a client or a topology.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "berth/device_backend.hpp"

#include "pjrt/api.hpp"

namespace berth::pjrt {

/// Appends attributes; one of them may be the memory of the device. A value of an unknown type is
/// left out, and so is a name that already exists. `function` is for errors.
/// Errors  BackendError: what the plug-in gave cannot be right.
void add_attributes(const Api& api, const char* function, DeviceDescription& described,
                    const NamedValue* first, std::size_t count);

/// The version of the ABI and the extensions.
[[nodiscard]] std::vector<DeviceAttribute> attributes_of(const Api& api);

/// Errors  Exceptions of the plug-in.
[[nodiscard]] DeviceDescription describe(const Api& api, Description* description);

/// "PJRT cpu 0.1, API 0.81". Only the first line of the version is used.
[[nodiscard]] std::string name_of(const Api& api, std::string_view platform,
                                  std::string_view version);

}  // namespace berth::pjrt
