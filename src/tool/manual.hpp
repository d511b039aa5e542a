// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tool/command_description.hpp"

namespace berth::tool {

/// The man page, in the language of man(7).
std::string man_page(const CommandLineDescription& berth);

}  // namespace berth::tool
