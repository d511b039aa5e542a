// SPDX-License-Identifier: Apache-2.0
#include "sim/device/visible_devices.hpp"

#include <algorithm>
#include <numeric>

namespace berth::sim {
namespace {

constexpr std::string_view kUuidPrefix = "GPU-";
constexpr int kNone = -1;

// As strtol: blanks, a sign, digits, and then anything.
int by_ordinal(std::string_view entry, int count) {
  constexpr std::string_view blanks = " \t\n\v\f\r";
  entry.remove_prefix(std::min(entry.find_first_not_of(blanks), entry.size()));
  const bool negative = entry.starts_with('-');
  if (negative || entry.starts_with('+')) entry.remove_prefix(1);
  if (negative) count = std::min(count, 1);  // minus zero is an ordinal, too
  int ordinal = kNone;
  for (const char c : entry) {
    if (c < '0' || c > '9') break;
    ordinal = std::max(ordinal, 0) * 10 + (c - '0');
    if (ordinal >= count) return kNone;
  }
  return ordinal;
}

int by_uuid(std::string_view entry, const std::vector<std::string>& uuids) {
  int found = kNone;
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    if (!std::string_view(uuids[i]).starts_with(entry)) continue;
    if (found != kNone) return kNone;  // not unique
    found = static_cast<int>(i);
  }
  return found;
}

}  // namespace

std::vector<int> visible_devices(const std::optional<std::string>& text,
                                 const std::vector<std::string>& uuids) {
  std::vector<int> visible;
  if (!text) {
    visible.resize(uuids.size());
    std::iota(visible.begin(), visible.end(), 0);
    return visible;
  }
  std::string_view rest = *text;
  // The first entry decides how all are read.
  const bool uuid_list = rest.starts_with(kUuidPrefix);
  for (;;) {
    const auto comma = rest.find(',');
    const std::string_view entry = rest.substr(0, comma);
    const int device = !uuid_list ? by_ordinal(entry, static_cast<int>(uuids.size()))
                       : entry.starts_with(kUuidPrefix) ? by_uuid(entry, uuids)
                                                        : kNone;
    if (device == kNone) return visible;
    if (std::find(visible.begin(), visible.end(), device) != visible.end()) return {};
    visible.push_back(device);
    if (comma == std::string_view::npos) return visible;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace berth::sim
