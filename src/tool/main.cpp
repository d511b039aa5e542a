// SPDX-License-Identifier: Apache-2.0
// The command `berth`: parses the command line, runs one subcommand, turns failures into one line
// and an exit code.
#include <csignal>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tool/command.hpp"
#include "tool/output.hpp"

namespace berth::tool {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (option->get_name().starts_with('-')) names.push_back(option->get_name());
  return names;
}

/// CLI11's own message, but what is accepted is added where it says only what is not.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const auto parsed = app.get_subcommands();
  const CLI::App& at = parsed.empty() ? app : *parsed.front();
  const std::vector<std::string> extras = app.remaining(true);
  if (!extras.empty()) {
    const bool is_option = extras.front().starts_with('-');
    if (!is_option && parsed.empty())
      return fmt::format("unknown command '{}'; accepted: {}", extras.front(),
                         fmt::join(command_names(app), ", "));
    return fmt::format("unexpected argument '{}'; accepted: {}", extras.front(),
                       fmt::join(option_names(at), ", "));
  }
  if (parsed.empty())
    return fmt::format("no command; accepted: {}", fmt::join(command_names(app), ", "));
  return fmt::format("{}; see berth {} --help", error.what(), at.get_name());
}

ExitCode parse_and_run(int argc, const char* const* argv) {
  CLI::App app("Devices, streams, memory and copies of GPUs.", "berth");
  app.set_version_flag("--version", "berth " BERTH_VERSION);
  app.get_formatter()->column_width(22);
  app.require_subcommand(1);
  app.footer(fmt::format("Examples:\n  berth devices\n  berth demo\n  berth replay --help\n\n{}",
                         kExitCodeHelp));
  const std::vector<Command> commands = {add_devices_command(app), add_replay_command(app),
                                         add_copy_command(app),    add_stats_command(app),
                                         add_demo_command(app),    add_config_command(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    std::ostringstream text;
    app.exit(help_or_version, text, text);
    print(text.str());
    return ExitCode::ok;
  } catch (const CLI::ParseError& error) {
    throw UsageError(usage_message(app, error));
  }
  for (const Command& command : commands)
    if (command.app->parsed()) return command.run();
  return ExitCode::usage;
}

ExitCode run(int argc, const char* const* argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const OutputClosed&) {
    return ExitCode::ok;
  } catch (const UsageError& error) {
    print_error(error.what());
    return ExitCode::usage;
  } catch (const NoDeviceError& error) {
    print_error(error.what());
    return ExitCode::no_device;
  } catch (const std::exception& error) {
    print_error(error.what());
    return ExitCode::failed;
  }
}

}  // namespace
}  // namespace berth::tool

int main(int argc, char** argv) {
  // A reader that goes away shows as a failed write (OutputClosed).
  std::signal(SIGPIPE, SIG_IGN);
  return int(berth::tool::run(argc, argv));
}
