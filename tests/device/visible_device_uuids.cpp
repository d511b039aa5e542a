// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "device/visible_device_cases.hpp"

namespace berth::test {
namespace {

constexpr std::size_t kPrefixLength = 4;  // "GPU-"

/// How many characters of `own` some other device begins with, too.
std::size_t shared_length(const std::string& own, const std::vector<std::string>& all) {
  std::size_t longest = kPrefixLength - 1;
  for (const std::string& other : all) {
    if (other == own) continue;
    const auto end = std::mismatch(own.begin(), own.end(), other.begin(), other.end()).first;
    longest = std::max(longest, std::size_t(end - own.begin()));
  }
  return longest;
}

std::string in_upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return char(std::toupper(c)); });
  return text;
}

std::size_t digit(std::string_view text, std::size_t at) {
  return std::size_t(text.at(at) - '0');
}

}  // namespace

std::optional<std::string> with_uuids(std::string_view text, const MachineUuids& uuids) {
  std::string filled;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char mark = text[at];
    if (std::string_view("$%~^@!").find(mark) == std::string_view::npos) {
      filled += mark;
      continue;
    }
    const std::size_t device = digit(text, ++at);
    if (device >= uuids.devices.size()) return std::nullopt;
    const std::string& own = uuids.devices[device];
    if (mark == '$') filled += own;
    if (mark == '%') filled += own.substr(0, shared_length(own, uuids.devices) + 1);
    if (mark == '~') filled += own.substr(0, shared_length(own, uuids.devices));
    if (mark == '^') filled += in_upper_case(own);
    if (mark != '@' && mark != '!') continue;
    at += 2;
    const std::size_t instance = digit(text, at);
    if (instance >= uuids.instances[device].size()) return std::nullopt;
    filled += uuids.instances[device][instance];
    if (mark == '!') filled.pop_back();
  }
  return filled;
}

}  // namespace berth::test
