// SPDX-License-Identifier: Apache-2.0
#include "tool/sim_settings.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tool/exit_code.hpp"
#include "tool/printable.hpp"
#include "tool/trimmed.hpp"

namespace berth::tool {
namespace {

void check_value(std::string_view value, std::string_view option, std::string_view argument) {
  if (value.find(',') != std::string_view::npos)
    throw UsageError(
        fmt::format("{} {}: accepted: a value without a comma", option, quoted_argument(argument)));
}

}  // namespace

SimSettings::SimSettings(std::string_view text) {
  if (trimmed(text).empty()) return;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view entry = trimmed(text.substr(at, end - at));
    entries_.push_back(
        {std::string(trimmed(entry.substr(0, entry.find('=')))), std::string(entry)});
    at = end + 1;
  }
}

void SimSettings::set(const std::string& key, const std::string& value, std::string_view option) {
  check_value(value, option, value);
  store(key, value);
}

void SimSettings::store(const std::string& key, const std::string& value) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
  entries_.push_back({key, fmt::format("{}={}", key, value)});
}

void SimSettings::set_default(const std::string& key, const std::string& value) {
  const bool is_set = std::any_of(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (!is_set) entries_.push_back({key, fmt::format("{}={}", key, value)});
}

void SimSettings::set_pair(const std::string& pair, std::string_view option) {
  const auto equals = pair.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError(
        fmt::format("{} {}: accepted: key=value, as in BERTH_SIM", option, quoted_argument(pair)));
  const std::string value = pair.substr(equals + 1);
  check_value(value, option, pair);
  store(pair.substr(0, equals), value);
}

std::string SimSettings::text() const {
  std::string text;
  for (const Entry& entry : entries_) {
    if (!text.empty()) text += ',';
    text += entry.text;
  }
  return text;
}

std::string SimSettings::value(std::string_view key) const {
  std::string value;
  for (const Entry& entry : entries_)
    if (entry.key == key) value = trimmed(entry.text.substr(entry.text.find('=') + 1));
  return value;
}

std::vector<std::string> unchecked_kinds(std::string_view checks) {
  if (checks.empty() || checks == "on") return {};
  const std::string wanted = fmt::format("/{}/", checks);
  std::vector<std::string> kinds;
  for (const char* const kind : {"race", "aliasing", "leak", "fault"})
    if (wanted.find(fmt::format("/{}/", kind)) == std::string::npos) kinds.emplace_back(kind);
  return kinds;
}

}  // namespace berth::tool
