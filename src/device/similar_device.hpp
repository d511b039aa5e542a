// SPDX-License-Identifier: Apache-2.0
// What somebody may have meant by a text that names no device: "gpu:1" for cuda:1.
#pragma once

#include <optional>
#include <string_view>

#include "berth/device.hpp"

namespace berth {

/// The device that `text` comes close to; nullopt where it comes close to none, or to more than one.
std::optional<Device> similar_device(std::string_view text);

}  // namespace berth
