// SPDX-License-Identifier: Apache-2.0
// The text of BERTH_SIM for a program: the value of the environment, overridden by the options.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::tool {

class SimSettings {
 public:
  /// `text` as in BERTH_SIM.
  explicit SimSettings(std::string_view text);

  /// Sets a key, and replaces its value if it exists.
  /// Errors  UsageError that names `option`: a comma, which the text cannot contain.
  void set(const std::string& key, const std::string& value, std::string_view option);
  /// Sets a key unless it is already set.
  void set_default(const std::string& key, const std::string& value);
  /// "key=value".
  /// Errors  UsageError that names `option`: no such form.
  void set_pair(const std::string& pair, std::string_view option);

  [[nodiscard]] std::string text() const;
  /// The value of the key; empty if it is not set.
  [[nodiscard]] std::string value(std::string_view key) const;

 private:
  /// An entry that is not a pair keeps its text, so that the simulator rejects it.
  struct Entry {
    std::string key;
    std::string text;
  };

  void store(const std::string& key, const std::string& value);

  std::vector<Entry> entries_;
};

/// The kinds of findings that the value of the key `checks` excludes.
std::vector<std::string> unchecked_kinds(std::string_view checks);

}  // namespace berth::tool
