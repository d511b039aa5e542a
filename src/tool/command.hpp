// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each lives in the file of its name, adds itself to the command line, and runs
// once that is parsed.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "tool/exit_code.hpp"

namespace berth::tool {

struct Command {
  CLI::App* app;
  std::function<ExitCode()> run;
};

Command add_devices_command(CLI::App& berth);
Command add_replay_command(CLI::App& berth);
Command add_stats_command(CLI::App& berth);
Command add_copy_command(CLI::App& berth);
Command add_demo_command(CLI::App& berth);
Command add_config_command(CLI::App& berth);

}  // namespace berth::tool
