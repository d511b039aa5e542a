// SPDX-License-Identifier: Apache-2.0
#include "tool/manual.hpp"

#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tool/exit_code.hpp"

namespace berth::tool {
namespace {

constexpr const char* kEnvironment =
    R"(.TP
.B BERTH_DRIVER
The driver, as \-\-driver names it.
.TP
.B BERTH_CONF
Options of the library, as key=value,...; see
.BR "berth config" .
.TP
.B BERTH_SIM
The simulated driver, as key=value,..., such as devices=2,memory=80GiB.
.TP
.B CUDA_VISIBLE_DEVICES
The devices that the driver shows, in this order.
)";

/// Quotes text for troff, so that it has no escapes or requests, and its minus signs can be copied.
std::string troff(std::string_view text) {
  std::string result;
  bool at_line_start = true;
  for (const char c : text) {
    if (at_line_start && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
    at_line_start = c == '\n';
  }
  return result;
}

std::string verbatim(std::string_view text) {
  std::string lines = troff(text);
  while (lines.ends_with('\n')) lines.pop_back();
  return ".PP\n.nf\n" + lines + "\n.fi\n";
}

std::string option_text(const OptionDescription& option) {
  std::string title = fmt::format("{}", fmt::join(option.names, ", "));
  if (option.takes_value && !option.names.empty()) title += " ";
  if (option.takes_value) title += option.type;
  return fmt::format(".TP\n.B \"{}\"\n{}\n", troff(title), troff(option.help));
}

std::string command_text(const CommandDescription& command) {
  std::string text =
      fmt::format(".SS berth {}\n{}.\n", troff(command.name), troff(command.summary));
  for (const OptionDescription& option : command.options) text += option_text(option);
  return command.footer.empty() ? text : text + verbatim(command.footer);
}

}  // namespace

std::string man_page(const CommandLineDescription& berth) {
  std::string text = fmt::format(
      ".TH BERTH 1 \"\" \"berth {}\"\n"
      ".SH NAME\nberth \\- devices, memory and copies of GPUs\n"
      ".SH SYNOPSIS\n.B berth\n.I command\n[options]\n"
      ".SH DESCRIPTION\n{}\n.SH OPTIONS\n",
      troff(BERTH_VERSION), troff(berth.summary));
  for (const OptionDescription& option : berth.options) text += option_text(option);
  text += ".SH COMMANDS\n";
  for (const CommandDescription& command : berth.commands) text += command_text(command);
  text += std::string(".SH ENVIRONMENT\n") + kEnvironment;
  return text + ".SH EXIT STATUS\n" + verbatim(kExitCodeHelp);
}

}  // namespace berth::tool
