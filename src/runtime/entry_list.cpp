// SPDX-License-Identifier: Apache-2.0
#include "runtime/entry_list.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/nearest_word.hpp"
#include "base/quoted.hpp"
#include "base/text_list.hpp"

namespace berth {
namespace {

/// Bounds the length of a message, whatever the length of the text.
constexpr std::size_t kErrorsMax = 16;

/// As split(), but a comma inside brackets belongs to its entry.
std::vector<std::string_view> split_around_lists(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '[') inside = true;
    if (text[at] == ']') inside = false;
    if (text[at] != ',' || inside) continue;
    parts.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string unknown_key(std::string_view name, const EntryGrammar& grammar) {
  std::vector<std::string_view> names;
  for (const EntryKey& key : grammar.keys) names.push_back(key.name);
  const std::string_view near = nearest_word(name, names);
  if (!near.empty()) return format_text("unknown key {}, perhaps {}", quoted(name), near);
  return format_text("unknown key {} (accepted: {})", quoted(name), join_texts(names, ", "));
}

}  // namespace

void ConfigurationErrors::add_value(const EntryKey& key, char equals, std::string_view value) {
  add(format_text("{}{}{} (accepted: {})", key.name, equals, quoted(value), key.accepted));
}

void ConfigurationErrors::throw_if_any(std::string_view source) const {
  if (list_.empty()) return;
  const std::size_t shown = std::min(list_.size(), kErrorsMax);
  std::string message =
      format_text("{}: {}", source, join_texts(std::span(list_).first(shown), "; "));
  if (shown < list_.size()) message += format_text("; and {} more", list_.size() - shown);
  throw InvalidArgument(message);
}

ConfigurationErrors read_entries(std::string_view text, const EntryGrammar& grammar,
                                 const std::function<bool(std::size_t, std::string_view)>& set) {
  ConfigurationErrors errors;
  if (trim(text).empty()) return errors;
  const auto entries = grammar.lists ? split_around_lists(text) : split(text, ',');
  std::vector<bool> seen(grammar.keys.size());
  for (std::size_t position = 0; position < entries.size(); ++position) {
    const std::string_view entry = trim(entries[position]);
    if (entry.empty()) {
      errors.add(format_text("entry {} of {} is empty", position + 1, entries.size()));
      continue;
    }
    const auto equals = entry.find(grammar.equals);
    const std::string_view name = trim(entry.substr(0, equals));
    const auto key = std::ranges::find(grammar.keys, name, &EntryKey::name);
    if (equals == entry.npos) {
      errors.add(format_text("{} has no '{}' (accepted: {})", quoted(entry), grammar.equals,
                             grammar.example));
    } else if (key == grammar.keys.end()) {
      errors.add(unknown_key(name, grammar));
    } else {
      const auto index = static_cast<std::size_t>(key - grammar.keys.begin());
      if (seen[index]) errors.add(format_text("{} is given again (accepted: once)", name));
      seen[index] = true;
      const std::string_view value = trim(entry.substr(equals + 1));
      if (!set(index, value)) errors.add_value(*key, grammar.equals, value);
    }
  }
  return errors;
}

std::string_view inside_brackets(std::string_view value) {
  if (value.size() < 2 || value.front() != '[' || value.back() != ']') return {};
  return value.substr(1, value.size() - 2);
}

}  // namespace berth
