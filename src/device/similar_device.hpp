// SPDX-License-Identifier: Apache-2.0
// Suggests a device for text that is not a device: cuda:1 for "gpu:1".
#pragma once

#include <optional>
#include <string_view>

#include "berth/device.hpp"

namespace berth {

/// The device that `text` resembles; nullopt if it resembles none, or more than one.
std::optional<Device> similar_device(std::string_view text);

}  // namespace berth
