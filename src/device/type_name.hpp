// SPDX-License-Identifier: Apache-2.0
// Which texts can name a device type.
#pragma once

#include <string_view>

namespace berth {

/// Whether DeviceType::register_name() accepts the text, as long as there is room for a type.
bool is_type_name(std::string_view text);

}  // namespace berth
