// SPDX-License-Identifier: Apache-2.0
// Parses text such as "key=value, key=value" with a list of keys, and reports all errors in one
// message.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

struct EntryKey {
  std::string_view name;
  std::string_view accepted;  ///< the accepted values, for people
};

struct EntryGrammar {
  char equals = '=';  ///< between key and value
  std::string_view example;
  bool lists = false;  ///< whether a value may be a list in brackets, commas included
  std::vector<EntryKey> keys = {};
};

/// The errors of a text, in the order of its entries.
/// Threads  One at a time.
class ConfigurationErrors {
 public:
  /// `what` becomes one line of bounded length, whatever the content of the text.
  void add(std::string what) { list_.push_back(std::move(what)); }
  /// The same for a value that its key does not accept.
  void add_value(const EntryKey& key, char equals, std::string_view value);

  /// Errors  InvalidArgument, if there is an error: "SOURCE: " and all of them.
  void throw_if_any(std::string_view source) const;

 private:
  std::vector<std::string> list_;
};

/// Passes every entry with a known key to `set`, which returns whether it accepts the value. The
/// caller lets `set` change a copy, and drops the copy if there are errors.
[[nodiscard]] ConfigurationErrors read_entries(
    std::string_view text, const EntryGrammar& grammar,
    const std::function<bool(std::size_t key, std::string_view value)>& set);

/// The text of such a list, "[a:1,b:2]", without the brackets; null data if it is not a list.
[[nodiscard]] std::string_view inside_brackets(std::string_view value);

}  // namespace berth
