// SPDX-License-Identifier: Apache-2.0
// The text of BERTH_SIM for a program: what the environment has, with the options over it.
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

  /// Instead of what the key has, if it is there.
  /// Errors  UsageError that names `option`: a comma, which the text cannot hold.
  void set(const std::string& key, const std::string& value, std::string_view option);
  /// If nothing else has set the key.
  void set_default(const std::string& key, const std::string& value);
  /// "key=value".
  /// Errors  UsageError that names `option`: no such form.
  void set_pair(const std::string& pair, std::string_view option);

  [[nodiscard]] std::string text() const;

 private:
  /// An entry that is no pair keeps its text, for the simulator to reject.
  struct Entry {
    std::string key;
    std::string text;
  };
  std::vector<Entry> entries_;
};

}  // namespace berth::tool
