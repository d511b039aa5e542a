// SPDX-License-Identifier: Apache-2.0
// Completion of the command line in shells.
#pragma once

#include <string>

#include "tool/command_description.hpp"

namespace berth::tool {

std::string bash_completion(const CommandLineDescription& berth);
std::string zsh_completion(const CommandLineDescription& berth);
std::string fish_completion(const CommandLineDescription& berth);

}  // namespace berth::tool
