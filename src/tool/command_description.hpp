// SPDX-License-Identifier: Apache-2.0
// The command line as data: what completions and the man page are written from, so that they name
// what the parser accepts and nothing else.
#pragma once

#include <string>
#include <vector>

namespace berth::tool {

/// What a shell may offer for a value. A value can have words and be a file.
struct ValueDescription {
  std::vector<std::string> words;
  bool is_file = false;
};

struct OptionDescription {
  std::vector<std::string> names;  ///< "--driver"; empty for an argument
  std::string type;                ///< "NAME"; empty for a flag
  std::string help;                ///< line breaks are spaces
  bool takes_value = false;
  bool is_argument = false;  ///< given by position, also or only
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
