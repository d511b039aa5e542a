// SPDX-License-Identifier: Apache-2.0
#include "runtime/pjrt_text.hpp"

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <utility>
#include <variant>

#include "berth/device_type.hpp"

#include "base/format.hpp"
#include "base/text_list.hpp"
#include "device/type_name.hpp"

namespace berth {
namespace {

constexpr std::string_view kNone = "none";

template <class T>
std::optional<T> read_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_all = error == std::errc() && end == text.data() + text.size();
  return is_all ? std::optional(value) : std::nullopt;
}

decltype(PjrtOption::value) read_value(std::string_view text) {
  if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'')
    return std::string(text.substr(1, text.size() - 2));
  if (text == "true" || text == "false") return text == "true";
  if (const auto number = read_whole<std::int64_t>(text)) return *number;
  const bool has_point = text.find('.') != text.npos;
  if (const auto number = has_point ? read_whole<float>(text) : std::nullopt) return *number;
  return std::string(text);
}

std::string value_text(const decltype(PjrtOption::value)& value) {
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<float>(&value)) {
    std::string text = format_text("{}", *number);
    if (text.find('.') == text.npos) text.insert(std::min(text.find('e'), text.size()), ".0");
    return text;
  }
  const std::string& text = std::get<std::string>(value);
  const bool is_plain = std::holds_alternative<std::string>(read_value(text)) &&
                        !text.starts_with('\'') && trim(text) == text;
  return is_plain ? text : format_text("'{}'", text);
}

bool is_on_one_line(std::string_view text) {
  return std::ranges::none_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

/// By berth's own devices, or by another plug-in.
bool is_taken(std::string_view type, const std::vector<PjrtPlugin>& plugins) {
  return type == DeviceType::cpu().name() || type == DeviceType::cuda().name() ||
         std::ranges::find(plugins, type, &PjrtPlugin::type) != plugins.end();
}

std::optional<PjrtPlugin> read_plugin(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == text.npos || !is_type_name(text.substr(0, colon))) return std::nullopt;
  PjrtPlugin plugin;
  plugin.type = text.substr(0, colon);
  std::string_view rest = text.substr(colon + 1);
  const auto question = rest.find('?');
  plugin.path = rest.substr(0, question);
  if (plugin.path.empty()) return std::nullopt;
  if (question == rest.npos) return plugin;
  for (const std::string_view option : split(rest.substr(question + 1), '&')) {
    const auto equals = option.find('=');
    if (equals == option.npos || equals == 0) return std::nullopt;
    plugin.options.push_back(
        {std::string(option.substr(0, equals)), read_value(option.substr(equals + 1))});
  }
  return plugin;
}

std::string plugin_text(const PjrtPlugin& plugin) {
  std::vector<std::string> options;
  for (const PjrtOption& option : plugin.options)
    options.push_back(format_text("{}={}", option.name, value_text(option.value)));
  return format_text("{}:{}{}{}", plugin.type, plugin.path, options.empty() ? "" : "?",
                     join_texts(options, "&"));
}

}  // namespace

std::optional<std::vector<PjrtPlugin>> read_pjrt(std::string_view text) {
  std::vector<PjrtPlugin> plugins;
  if (text == kNone) return plugins;
  if (!is_on_one_line(text)) return std::nullopt;
  for (const std::string_view each : split(text, ';')) {
    std::optional<PjrtPlugin> plugin = read_plugin(trim(each));
    if (!plugin || is_taken(plugin->type, plugins)) return std::nullopt;
    plugins.push_back(*std::move(plugin));
  }
  return plugins;
}

std::string pjrt_text(const std::vector<PjrtPlugin>& plugins) {
  if (plugins.empty()) return std::string(kNone);
  std::vector<std::string> texts;
  for (const PjrtPlugin& plugin : plugins) texts.push_back(plugin_text(plugin));
  return format_text("{}", join_texts(texts, ";"));
}

}  // namespace berth
