// SPDX-License-Identifier: Apache-2.0
// Programs that the command starts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace berth::tool {

/// Variables over those of this process.
using EnvironmentChanges = std::map<std::string, std::string>;

struct ProgramEnd {
  int exit_code = 0;  ///< 128 and the signal, if one ended it; 126 and 127 as in `failure`
  int signal = 0;     ///< that ended it; 0: none did
  /// Why it was not started: there is no such program (127), or it cannot be executed (126).
  std::string failure;
  bool is_interrupted = false;  ///< this process was asked to end meanwhile
};

/// Runs `arguments`, a program by its path or as PATH finds it, and waits for its end. Signals that
/// another process sends to this one are handed on. Those of the terminal reach both anyhow.
ProgramEnd run_program(const std::vector<std::string>& arguments,
                       const EnvironmentChanges& environment);

/// What `arguments` writes to standard output; nullopt if it cannot be started.
std::optional<std::string> output_of(const std::vector<std::string>& arguments);

/// A reader that goes away then shows as a failed write. Programs that are started find the signal
/// as this process found it.
void ignore_broken_pipe();

}  // namespace berth::tool
