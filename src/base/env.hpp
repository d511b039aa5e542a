// SPDX-License-Identifier: Apache-2.0
// The only reader of the environment.
#pragma once

#include <optional>
#include <string>

namespace berth {

/// The variable's value; nullopt if it is not set. A variable that is set but empty is an empty
/// string.
std::optional<std::string> env(const char* name);
/// The same for a variable that makes berth load or write a file: nullopt also in a program with
/// raised privileges (setuid, capabilities), whose caller must not choose its files.
std::optional<std::string> trusted_env(const char* name);

}  // namespace berth
