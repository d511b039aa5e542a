// SPDX-License-Identifier: Apache-2.0
// Programs that the command starts.
#pragma once

#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace berth::tool {

/// Variables that override those of this process.
using EnvironmentChanges = std::map<std::string, std::string>;

struct ProgramEnd {
  int exit_code = 0;  ///< 128 + the signal, if one ended it; 126 and 127 as in `failure`
  int signal = 0;     ///< that ended it; 0: none
  /// The reason why it was not started: there is no such program (127), or it cannot be executed
  /// (126).
  std::string failure;
  bool is_interrupted = false;  ///< this process received a signal to end meanwhile
};

/// From its construction on, no signal to end interrupts what this process does until it exits.
/// Programs that are started keep the original signals.
class CaughtSignals {
 public:
  /// Signals stay pending, for run_program().
  CaughtSignals();
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;

  /// To be called when all programs have ended. The first kIgnored signals to end are ignored from
  /// then on, since a sender such as `timeout` signals first the process and then its group. One
  /// more ends this process. SIGUSR1 and SIGUSR2 are ignored.
  void ignore_few();

  static constexpr int kIgnored = 2;

 private:
  friend ProgramEnd run_program(const std::vector<std::string>&, const EnvironmentChanges&,
                                const CaughtSignals&);

  sigset_t former_{};
};

/// Runs `arguments`, a program by its path or found in PATH, and waits for its end. Signals that
/// another process sends to this one are forwarded. Signals of the terminal reach both.
ProgramEnd run_program(const std::vector<std::string>& arguments,
                       const EnvironmentChanges& environment, const CaughtSignals& signals);

/// The standard output of `arguments`; nullopt if the program cannot be started. The program
/// ignores signals to end, which its group may receive, and does not outlive this process.
std::optional<std::string> output_of(const std::vector<std::string>& arguments);

/// A closed reader then causes a failed write. Started programs have the original disposition of
/// the signal.
void ignore_broken_pipe();

}  // namespace berth::tool
