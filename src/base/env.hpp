// SPDX-License-Identifier: Apache-2.0
// The only reader of the environment.
#pragma once

#include <optional>
#include <string>

namespace berth {

/// The variable's value; nullopt where it is not set. Set but empty is an empty string.
std::optional<std::string> env(const char* name);

}  // namespace berth
