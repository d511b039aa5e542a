// SPDX-License-Identifier: Apache-2.0
#include "tool/completion.hpp"

#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace berth::tool {
namespace {

/// `text` with a backslash before each of `special`.
std::string backslashed(std::string_view text, std::string_view special) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::string> names_of(const std::vector<OptionDescription>& options) {
  std::vector<std::string> names;
  for (const OptionDescription& option : options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

/// The completions of bash for a value: `compgen` completes one word.
std::string bash_offer(const ValueDescription& value) {
  std::string offer;
  if (!value.words.empty()) offer += fmt::format(" -W '{}'", joined(value.words));
  if (value.is_file) offer += " -f";
  return offer;
}

std::string bash_case(const CommandDescription& command) {
  std::string text =
      fmt::format("    {})\n      options='{}'\n", command.name, joined(names_of(command.options)));
  std::string values;
  for (const OptionDescription& option : command.options) {
    if (option.is_argument)
      text += fmt::format("      argument=\"{}\"\n", bash_offer(option.value));
    if (!option.takes_value || option.names.empty()) continue;
    values += fmt::format(
        "        {}) value=\"{}\" ;;\n", fmt::join(option.names, " | "),
        option.value.words.empty() && !option.value.is_file ? " -W ''" : bash_offer(option.value));
  }
  if (!values.empty()) text += "      case $previous in\n" + values + "      esac\n";
  return text + "      ;;\n";
}

/// An option or an argument in the form of zsh's _arguments.
std::string zsh_value(const OptionDescription& option) {
  const std::string type = backslashed(option.type, ":'");
  const std::string words = joined(option.value.words);
  if (option.value.is_file && !words.empty())
    return fmt::format(":{}:{{compadd {}; _files}}", type, words);
  if (option.value.is_file) return fmt::format(":{}:_files", type);
  return fmt::format(":{}:({})", type, words);
}

std::string zsh_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string zsh_options(const std::vector<OptionDescription>& options) {
  std::string text;
  for (const OptionDescription& option : options) {
    const std::string value = option.takes_value ? zsh_value(option) : "";
    for (const std::string& name : option.names)
      text += fmt::format(
          " \\\n        {}",
          zsh_quoted(fmt::format("{}[{}]{}", name, backslashed(option.help, "[]:\\"), value)));
    if (option.is_argument) text += " \\\n        " + zsh_quoted("*" + value);
  }
  return text;
}

std::string fish_quoted(std::string_view text) {
  return fmt::format("'{}'", backslashed(text, "'\\"));
}

std::string fish_value(const ValueDescription& value) {
  std::string text = value.is_file ? " -F" : "";
  if (!value.words.empty()) text += " -a " + fish_quoted(joined(value.words));
  return text;
}

std::string fish_option(const OptionDescription& option, const std::string& condition) {
  const std::string start = fmt::format("complete -c berth -n {}", fish_quoted(condition));
  std::string text;
  if (!option.names.empty()) {
    text += start;
    for (const std::string& name : option.names)
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (option.takes_value) text += " -r" + fish_value(option.value);
    text += " -d " + fish_quoted(option.help) + "\n";
  }
  if (option.is_argument) text += start + fish_value(option.value) + "\n";
  return text;
}

}  // namespace

std::string bash_completion(const CommandLineDescription& berth) {
  std::vector<std::string> first = names_of(berth.options);
  std::string cases;
  for (const CommandDescription& command : berth.commands) {
    first.push_back(command.name);
    cases += bash_case(command);
  }
  return fmt::format(
      R"(# Completion of the command berth in bash. Written by: berth completion bash
_berth() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local options='{}' argument='' value=''
  COMPREPLY=()
  if ((COMP_CWORD > 1)); then
    options=''
    case ${{COMP_WORDS[1]}} in
{}    esac
  fi
  if [[ -n $value ]]; then
    mapfile -t COMPREPLY < <(eval "compgen $value -- \"\$current\"")
  elif [[ $current == -* || -z $argument ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  else
    mapfile -t COMPREPLY < <(eval "compgen $argument -- \"\$current\"")
  fi
}}
complete -o filenames -F _berth berth
)",
      joined(first), cases);
}

std::string zsh_completion(const CommandLineDescription& berth) {
  std::string commands;
  std::string cases;
  for (const CommandDescription& command : berth.commands) {
    commands += fmt::format(
        "    {}\n",
        zsh_quoted(fmt::format("{}:{}", command.name, backslashed(command.summary, ":\\"))));
    cases += fmt::format("    {})\n      _arguments{}\n      ;;\n", command.name,
                         zsh_options(command.options));
  }
  return fmt::format(
      R"(#compdef berth
# Completion of the command berth in zsh. Written by: berth completion zsh
_berth() {{
  local -a commands
  commands=(
{})
  if ((CURRENT == 2)); then
    _describe command commands
    _arguments{}
    return
  fi
  shift words
  ((CURRENT--))
  case $words[1] in
{}  esac
}}
_berth "$@"
)",
      commands, zsh_options(berth.options), cases);
}

std::string fish_completion(const CommandLineDescription& berth) {
  std::string text =
      "# Completion of the command berth in fish. Written by: berth completion fish\n"
      "complete -c berth -f\n";
  for (const OptionDescription& option : berth.options)
    text += fish_option(option, "__fish_use_subcommand");
  for (const CommandDescription& command : berth.commands) {
    text += fmt::format("complete -c berth -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        fish_quoted(command.summary));
    for (const OptionDescription& option : command.options)
      text += fish_option(option, "__fish_seen_subcommand_from " + command.name);
  }
  return text;
}

}  // namespace berth::tool
