// SPDX-License-Identifier: Apache-2.0
// Named values: options that a plug-in gets, and attributes that it gives.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "berth/device_backend.hpp"
#include "berth/pjrt.hpp"

#include "pjrt/given.hpp"

namespace berth::pjrt {

/// The values refer to the options.
[[nodiscard]] std::vector<NamedValue> to_named_values(const std::vector<PjrtOption>& options);

/// Attributes, as a plug-in gives them: `function` is for errors.
/// Errors  BackendError: null; a size that cannot be right.
[[nodiscard]] std::vector<NamedValue> read_named_values(const Api& api, const char* function,
                                                        const NamedValue* first, std::size_t count);
/// nullopt: a type of value that berth does not know.
/// Errors  As read_named_values().
[[nodiscard]] std::optional<DeviceAttribute> to_attribute(const Api& api, const char* function,
                                                          const NamedValue& value);

}  // namespace berth::pjrt
