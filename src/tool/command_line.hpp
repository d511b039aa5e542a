// SPDX-License-Identifier: Apache-2.0
// The command line, without the library that parses it: that takes long to compile, and each
// subcommand would again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tool/command_description.hpp"
#include "tool/exit_code.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace berth::tool {

/// What a shell may offer for the values of options.
using OptionValues = std::map<const CLI::Option*, ValueDescription>;
/// Of the commands that run a program: where its words go.
using Programs = std::map<std::string, std::vector<std::string>*>;

/// A subcommand while it says what it takes. What is named is filled in when it is parsed; what is
/// not given keeps its value. In help text a line break is one.
class CommandOptions {
 public:
  CommandOptions(CLI::App& command, OptionValues& values, Programs& programs)
      : command_(command), values_(values), programs_(programs) {}

  void flag(const char* name, bool& value, const char* help);
  /// `type` stands for the value in the help.
  void text(const char* name, std::string& value, const char* type, const std::string& help,
            const ValueDescription& offered = {});
  /// One of `accepted`.
  void choice(const char* name, std::string& value, const char* type, const std::string& help,
              const std::vector<std::string>& accepted);
  /// From 1 to `max`.
  void count(const char* name, int& value, int max, const std::string& help);
  /// Separated by commas.
  void list(const char* name, std::vector<std::string>& values, const char* type,
            const std::string& help);
  /// One or more arguments, each a file.
  void files(const char* name, std::vector<std::string>& values, const std::string& help);
  /// An argument that is one of `accepted`.
  void argument(const char* name, std::string& value, const std::string& help,
                const std::vector<std::string>& accepted, bool required);
  /// From 0 on.
  void number(const char* name, std::optional<std::uint64_t>& value, const std::string& help);
  /// May be given several times.
  void repeated(const char* name, std::vector<std::string>& values, const char* type,
                const std::string& help);
  /// All that follows `--`: a program and its arguments, which are not looked at.
  void program(const char* name, std::vector<std::string>& words, const std::string& help);
  /// At the end of the help, before the exit codes.
  void footer(const std::string& text, const char* exit_codes = kExitCodeHelp);

 private:
  CLI::App& command_;
  OptionValues& values_;
  Programs& programs_;
};

class CommandLine {
 public:
  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// A subcommand, which `run` runs.
  CommandOptions add(const char* name, const char* summary, std::function<ExitCode()> run);

  /// Parses, and runs what was asked for: a subcommand, or the help.
  /// Errors  UsageError. What the subcommand throws.
  ExitCode parse_and_run(int argc, const char* const* argv);

  /// The help of a subcommand, or of the command itself if `name` is empty.
  [[nodiscard]] std::string help(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> command_names() const;
  [[nodiscard]] CommandLineDescription describe() const;

 private:
  /// What follows `--`, if the command runs a program; `argc` then counts what is before.
  std::vector<std::string> cut_off_program(int& argc, const char* const* argv) const;

  struct Command {
    CLI::App* app;
    std::function<ExitCode()> run;
  };

  std::unique_ptr<CLI::App> app_;
  OptionValues values_;
  Programs programs_;
  std::vector<Command> commands_;
};

}  // namespace berth::tool
