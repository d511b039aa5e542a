// SPDX-License-Identifier: Apache-2.0
#include "tool/command_line.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tool/output.hpp"
#include "tool/printable.hpp"

namespace berth::tool {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

OptionDescription describe_option(const CLI::Option& option, const OptionValues& values) {
  OptionDescription described;
  for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  described.takes_value = option.get_expected_min() > 0;
  described.is_argument = option.get_positional();
  described.type = option.get_type_name();
  if (described.is_argument && described.type.empty()) described.type = option.get_name(true);
  described.help = on_one_line(option.get_description());
  if (const auto offered = values.find(&option); offered != values.end())
    described.value = offered->second;
  return described;
}

std::vector<OptionDescription> describe_options(const CLI::App& app, const OptionValues& values) {
  std::vector<OptionDescription> all;
  for (const CLI::Option* option : app.get_options())
    all.push_back(describe_option(*option, values));
  return all;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (option->get_name().starts_with('-')) names.push_back(option->get_name());
  return names;
}

// The reasons why CLI11 is to reject a value; empty if it is not.
std::string reject_empty(const std::string& text) {
  return text.empty() ? "accepted: a value that is not empty" : "";
}

/// CLI11 reads 010 and 0x8 as eight, and -1 as a large number.
std::string reject_undecimal(const std::string& text) {
  const bool is_decimal = !text.empty() &&
                          std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; }) &&
                          (text.size() == 1 || text.front() != '0');
  return is_decimal ? "" : quoted_argument(text) + " is no decimal number; accepted: such as 4";
}

/// CLI11 reads the largest number instead.
std::string reject_huge(const std::string& text) {
  std::uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto most = std::numeric_limits<std::uint64_t>::max();
  return read.ec == std::errc()
             ? ""
             : fmt::format("{} is too large; accepted: at most {}", quoted_argument(text), most);
}

/// CLI11's own message, with the accepted values if CLI11 names only the rejected one.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const auto parsed = app.get_subcommands();
  const CLI::App& at = parsed.empty() ? app : *parsed.front();
  const std::vector<std::string> extras = app.remaining(true);
  if (!extras.empty()) {
    const bool is_option = extras.front().starts_with('-');
    if (!is_option && parsed.empty())
      return fmt::format("unknown command {}; accepted: {}", quoted_argument(extras.front()),
                         fmt::join(command_names(app), ", "));
    return fmt::format("unexpected argument {}; accepted: {}", quoted_argument(extras.front()),
                       fmt::join(option_names(at), ", "));
  }
  if (parsed.empty())
    return fmt::format("no command; accepted: {}", fmt::join(command_names(app), ", "));
  return fmt::format("{}; see berth {} --help", error.what(), at.get_name());
}

}  // namespace

void CommandOptions::flag(const char* name, bool& value, const char* help) {
  command_.add_flag(name, value, help);
}

void CommandOptions::text(const char* name, std::string& value, const char* type,
                          const std::string& help, const ValueDescription& offered) {
  values_[command_.add_option(name, value, help)->check(reject_empty)->type_name(type)] = offered;
}

void CommandOptions::choice(const char* name, std::string& value, const char* type,
                            const std::string& help, const std::vector<std::string>& accepted) {
  values_[command_.add_option(name, value, help)
              ->check(CLI::IsMember(accepted).description(""))
              ->type_name(type)] = {accepted, false};
}

void CommandOptions::count(const char* name, int& value, int max, const std::string& help) {
  command_.add_option(name, value, help)
      ->check(reject_undecimal)
      ->check(CLI::Range(1, max).description(""))
      ->type_name("N");
}

void CommandOptions::list(const char* name, std::vector<std::string>& values, const char* type,
                          const std::string& help) {
  // CLI11's own delimiter drops empty entries.
  const auto split = [&values, name](const CLI::results_t& words) {
    values.clear();
    for (const std::string& word : words) {
      for (std::size_t at = 0; at <= word.size();) {
        const std::size_t end = std::min(word.find(',', at), word.size());
        if (end == at)
          throw CLI::ValidationError(name,
                                     fmt::format("an entry of {} is empty", quoted_argument(word)));
        values.push_back(word.substr(at, end - at));
        at = end + 1;
      }
    }
    return true;
  };
  command_.add_option(name, split, help)
      ->type_size(1)
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->type_name(type);
}

void CommandOptions::files(const char* name, std::vector<std::string>& values,
                           const std::string& help) {
  values_[command_.add_option(name, values, help)->required()->type_name("")] = {{}, true};
}

void CommandOptions::argument(const char* name, std::string& value, const std::string& help,
                              const std::vector<std::string>& accepted, bool required) {
  values_[command_.add_option(name, value, help)
              ->check(CLI::IsMember(accepted).description(""))
              ->required(required)
              ->type_name("")] = {accepted, false};
}

void CommandOptions::number(const char* name, std::optional<std::uint64_t>& value,
                            const std::string& help) {
  command_.add_option(name, value, help)
      ->check(reject_undecimal)
      ->check(reject_huge)
      ->type_name("N");
}

void CommandOptions::repeated(const char* name, std::vector<std::string>& values, const char* type,
                              const std::string& help) {
  command_.add_option(name, values, help)->type_name(type)->expected(1)->take_all();
}

void CommandOptions::program(const char* name, std::vector<std::string>& words,
                             const std::string& help) {
  values_[command_.add_option(name, words, help)->type_name("")] = {{}, true};
  programs_[command_.get_name()] = &words;
}

void CommandOptions::footer(const std::string& text, const char* exit_codes) {
  command_.footer(text + "\n" + exit_codes);
}

CommandLine::CommandLine()
    : app_(std::make_unique<CLI::App>("Devices, streams, memory and copies of GPUs.", "berth")) {
  app_->set_version_flag("--version", "berth " BERTH_VERSION);
  app_->get_formatter()->column_width(22);
  app_->require_subcommand(1);
  app_->footer(fmt::format("Examples:\n  berth devices\n  berth demo\n  berth replay --help\n\n{}",
                           kExitCodeHelp));
}

CommandLine::~CommandLine() = default;

CommandOptions CommandLine::add(const char* name, const char* summary,
                                std::function<ExitCode()> run) {
  CLI::App* const command = app_->add_subcommand(name, summary);
  commands_.push_back({command, std::move(run)});
  return CommandOptions(*command, values_, programs_);
}

std::string CommandLine::help(const std::string& name) const {
  if (!name.empty()) return app_->get_subcommand(name)->help(app_->get_name());
  // App::help() would be the help of `help`, which was parsed.
  return app_->get_formatter()->make_help(app_.get(), app_->get_name(), CLI::AppFormatMode::Normal);
}

std::vector<std::string> CommandLine::command_names() const {
  return tool::command_names(*app_);
}

CommandLineDescription CommandLine::describe() const {
  CommandLineDescription described{app_->get_description(), describe_options(*app_, values_), {}};
  for (const CLI::App* command : app_->get_subcommands(nullptr)) {
    std::string footer = command->get_footer();
    if (const auto end = footer.rfind(kExitCodeHelp); end != std::string::npos) footer.resize(end);
    described.commands.push_back({command->get_name(), command->get_description(), footer,
                                  describe_options(*command, values_)});
  }
  return described;
}

std::vector<std::string> CommandLine::cut_off_program(int& argc, const char* const* argv) const {
  if (argc < 2 || !programs_.contains(argv[1])) return {};
  const auto* const end = argv + argc;
  const auto* const mark =
      std::find_if(argv, end, [](const char* word) { return std::string_view(word) == "--"; });
  argc = static_cast<int>(mark - argv);
  return mark == end ? std::vector<std::string>{} : std::vector<std::string>(mark + 1, end);
}

ExitCode CommandLine::parse_and_run(int argc, const char* const* argv) {
  std::vector<std::string> program = cut_off_program(argc, argv);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    std::ostringstream text;
    app_->exit(help_or_version, text, text);
    print(text.str());
    return ExitCode::ok;
  } catch (const CLI::ParseError& error) {
    throw UsageError(usage_message(*app_, error));
  }
  for (const auto& [name, words] : programs_) {
    if (!app_->got_subcommand(name)) continue;
    if (!words->empty() || program.empty())
      throw UsageError(
          fmt::format("no program; accepted: berth {} [options] -- PROGRAM [arguments]", name));
    *words = std::move(program);
  }
  for (const Command& command : commands_)
    if (command.app->parsed()) return command.run();
  return ExitCode::usage;
}

}  // namespace berth::tool
