// SPDX-License-Identifier: Apache-2.0
// PJRT plug-ins as text:
//
//     plugins = plugin | plugin ";" plugins
//     plugin  = type ":" path | type ":" path "?" options
//     options = name "=" value | name "=" value "&" options
//     value   = "true" | "false" | an integer | a decimal number with a point | text | "'" text "'"
//
// "tpu:libtpu.so;x:/opt/x.so?cpu_device_count=4&mode=fast". A value in apostrophes is always text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/pjrt.hpp"

namespace berth {

inline constexpr std::string_view kAcceptedPjrt =
    "none, or TYPE:PATH[?NAME=VALUE&...];... with each TYPE once, 1 to 15 of a-z, 0-9 and _ that "
    "begin with a letter, not cpu or cuda";

/// nullopt: not accepted.
std::optional<std::vector<PjrtPlugin>> read_pjrt(std::string_view text);
/// What read_pjrt() accepts; "none" for none.
std::string pjrt_text(const std::vector<PjrtPlugin>& plugins);

}  // namespace berth
