// SPDX-License-Identifier: Apache-2.0
// The command line, without the library that parses it, which takes long to compile, once for each
// subcommand.
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

/// The completions that a shell may offer for the values of options.
using OptionValues = std::map<const CLI::Option*, ValueDescription>;
/// For commands that run a program: the destination of its words.
using Programs = std::map<std::string, std::vector<std::string>*>;

/// A subcommand that declares its options. Parsing fills in the named variables; variables without
/// an option on the command line keep their value. A line break in help text is kept.
class CommandOptions {
 public:
  CommandOptions(CLI::App& command, OptionValues& values, Programs& programs)
      : command_(command), values_(values), programs_(programs) {}

  void flag(const char* name, bool& value, const char* help);
  /// `type` represents the value in the help.
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
  /// Everything after `--`: a program and its arguments, which are not parsed.
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

  /// Parses, and runs a subcommand, or prints the help.
  /// Errors  UsageError. Those of the subcommand.
  ExitCode parse_and_run(int argc, const char* const* argv);

  /// The help of a subcommand, or of the command itself if `name` is empty.
  [[nodiscard]] std::string help(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> command_names() const;
  [[nodiscard]] CommandLineDescription describe() const;

 private:
  /// The words after `--`, if the command runs a program; `argc` then counts the words before.
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
