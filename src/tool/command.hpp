// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each is in the file of its name, adds itself to the command line, and runs after
// the command line is parsed.
#pragma once

#include "tool/command_line.hpp"

namespace berth::tool {

void add_devices_command(CommandLine& berth);
void add_replay_command(CommandLine& berth);
void add_tune_command(CommandLine& berth);
void add_stats_command(CommandLine& berth);
void add_copy_command(CommandLine& berth);
void add_demo_command(CommandLine& berth);
void add_config_command(CommandLine& berth);
void add_sim_command(CommandLine& berth);
/// `help` and `completion`, which cover all commands of `berth`.
void add_help_commands(CommandLine& berth);

}  // namespace berth::tool
