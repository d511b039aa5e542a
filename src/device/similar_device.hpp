// SPDX-License-Identifier: Apache-2.0
// Suggests a device for text that names none: cuda:1 for "gpu:1".
#pragma once

#include <optional>
#include <string_view>

#include "berth/device.hpp"

namespace berth {

/// The device that `text` comes close to; nullopt if it comes close to none, or to more than
/// one.
std::optional<Device> similar_device(std::string_view text);

}  // namespace berth
