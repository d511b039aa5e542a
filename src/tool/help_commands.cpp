// SPDX-License-Identifier: Apache-2.0
#include "tool/command.hpp"
#include "tool/completion.hpp"
#include "tool/manual.hpp"
#include "tool/output.hpp"

namespace berth::tool {
namespace {

struct HelpOptions {
  std::string command;
  bool man = false;
};

std::string completion_for(const std::string& shell, const CommandLineDescription& berth) {
  if (shell == "bash") return bash_completion(berth);
  if (shell == "zsh") return zsh_completion(berth);
  return fish_completion(berth);
}

void add_help_command(CommandLine& berth) {
  const auto options = std::make_shared<HelpOptions>();
  CommandOptions command = berth.add("help", "The help of a command, or the man page", [=, &berth] {
    print(options->man ? man_page(berth.describe()) : berth.help(options->command));
    return ExitCode::ok;
  });
  std::vector<std::string> commands = berth.command_names();
  commands.emplace_back("completion");
  command.argument("COMMAND", options->command, "Of which command; default: all of them", commands,
                   false);
  command.flag("--man", options->man, "Print the man page, for man -l");
  command.footer(
      "Examples:\n"
      "  berth help replay\n"
      "  berth help --man | man -l -\n");
}

void add_completion_command(CommandLine& berth) {
  const auto shell = std::make_shared<std::string>();
  CommandOptions command =
      berth.add("completion", "Completion of this command line in a shell", [=, &berth] {
        print(completion_for(*shell, berth.describe()));
        return ExitCode::ok;
      });
  command.argument("SHELL", *shell, "bash, zsh or fish", {"bash", "zsh", "fish"}, true);
  command.footer(
      "An installation has these files already, where the shells look for them.\n\n"
      "Examples:\n"
      "  source <(berth completion bash)\n"
      "  berth completion fish > ~/.config/fish/completions/berth.fish\n");
}

}  // namespace

void add_help_commands(CommandLine& berth) {
  add_help_command(berth);
  add_completion_command(berth);
}

}  // namespace berth::tool
