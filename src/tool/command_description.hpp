// SPDX-License-Identifier: Apache-2.0
// The command line as data, from which completions and the man page are generated, so that they
// match the parser.
#pragma once

#include <string>
#include <vector>

namespace berth::tool {

/// The completions that a shell may offer for a value: words, files, or both.
struct ValueDescription {
  std::vector<std::string> words;
  bool is_file = false;
};

struct OptionDescription {
  std::vector<std::string> names;  ///< "--driver"; empty for an argument
  std::string type;                ///< "NAME"; empty for a flag
  std::string help;                ///< line breaks are spaces
  bool takes_value = false;
  bool is_argument = false;  ///< may be given, or must be given, by position
  ValueDescription value;
};

struct CommandDescription {
  std::string name;
  std::string summary;
  std::string footer;  ///< without the exit codes
  std::vector<OptionDescription> options;
};

struct CommandLineDescription {
  std::string summary;
  std::vector<OptionDescription> options;  ///< of the command itself
  std::vector<CommandDescription> commands;
};

}  // namespace berth::tool
