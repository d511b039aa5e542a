// SPDX-License-Identifier: Apache-2.0
// What CUDA_VISIBLE_DEVICES means, as one table of cases on a machine with four devices. It judges
// berth's device registry and the simulated driver, which share no parser.
// Sources: CUDA C++ Programming Guide, "CUDA Environment Variables"; what the drivers do with odd
// numbers, as PyTorch's parser of the same variable records it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::test {

inline constexpr int kVisibleDeviceCaseDevices = 4;

struct VisibleDeviceCase {
  /// nullopt: not set. $N is the UUID of physical device N, %N the shortest prefix that only it
  /// has.
  std::optional<std::string_view> value;
  /// Physical devices, in logical order.
  std::vector<int> visible;
  /// Whether an entry is malformed. Hiding devices with an empty value or -1 is not.
  bool malformed = false;
};

inline std::vector<VisibleDeviceCase> visible_device_cases() {
  constexpr bool malformed = true;
  return {
      {std::nullopt, {0, 1, 2, 3}},
      {"", {}},
      {"-1", {}},
      // Ordinals: those named, in the order named.
      {"0", {0}},
      {"3", {3}},
      {"0,1", {0, 1}},
      {"1,0", {1, 0}},
      {"3,2,1,0", {3, 2, 1, 0}},
      {"2,0", {2, 0}},
      {"0,1,2,3", {0, 1, 2, 3}},
      {"00", {0}},
      {"02,1", {2, 1}},
      // The first entry that names no device ends the list.
      {"0,-1,1", {0}},
      {"0,2,-1,1", {0, 2}},
      {"-1,0", {}},
      {"0,-2,1", {0}, malformed},
      {"abc", {}, malformed},
      {"no", {}, malformed},
      {"none", {}, malformed},
      {"all", {}, malformed},
      {",0", {}, malformed},
      {",", {}, malformed},
      {"0,,1", {0}, malformed},
      {"0,abc,1", {0}, malformed},
      {"1,0,x", {1, 0}, malformed},
      {"0,GPU-aaa", {0}, malformed},
      {"0;1", {0}},
      // Ordinals beyond the devices.
      {"4", {}, malformed},
      {"0,4,1", {0}, malformed},
      {"63", {}, malformed},
      {"256", {}, malformed},
      {"4294967295", {}, malformed},
      {"4294967296", {}, malformed},
      {"0,4294967297", {0}, malformed},
      {"18446744073709551615", {}, malformed},
      {"18446744073709551616", {}, malformed},
      {"1,18446744073709551616,0", {1}, malformed},
      {"99999999999999999999999999", {}, malformed},
      // A device named twice: none at all.
      {"0,0", {}, malformed},
      {"0,00", {}, malformed},
      {"1,0,1", {}, malformed},
      {"0,1,2,3,0", {}, malformed},
      // An ordinal is read as C reads a number: spaces and a sign before it, anything after it.
      {" 1 , 2", {1, 2}},
      {"  3", {3}},
      {"+1,2", {1, 2}},
      {"1gpu2,2ampere", {1, 2}},
      {"0x1", {0}},
      {"0-3", {0}},
      {"1.5", {1}},
      {"+", {}, malformed},
      {"-", {}, malformed},
      {" ", {}, malformed},
      {"0,+", {0}, malformed},
      {"--1", {}, malformed},
      {"\xc2\xb2", {}, malformed},
      {"\xd9\xa3", {}, malformed},
      // UUIDs, whole or abbreviated as long as only one device has the prefix.
      {"$0", {0}},
      {"$3", {3}},
      {"$2,$0", {2, 0}},
      {"$3,$2,$1,$0", {3, 2, 1, 0}},
      {"%0", {0}},
      {"%3,%1", {3, 1}},
      {"$0,%2", {0, 2}},
      {"GPU-", {}, malformed},
      {"$1,GPU-,$0", {1}, malformed},
      {"GPU-aaa", {}, malformed},
      {"GPU-zzzz", {}, malformed},
      {"gpu-aaa", {}, malformed},
      {"GP", {}, malformed},
      {"$0x", {}, malformed},
      {"$0,$0", {}, malformed},
      {"$0,%0", {}, malformed},
      {"$0,$1,$0", {}, malformed},
      {"$0, $1", {0}, malformed},
      {"$0,", {0}},
      // Ordinals and UUIDs do not mix.
      {"$1,0", {1}, malformed},
      {"0,$1", {0}, malformed},
      // Partitions of a device, where there are none.
      {"MIG-0,MIG-1", {}},
      {"0,MIG-GPU-1/2/3", {0}},
  };
}

/// `value` with the UUIDs of `uuids`, in physical order, in place of $N and %N.
inline std::string with_uuids(std::string_view value, const std::vector<std::string>& uuids) {
  const auto shortest_prefix = [&uuids](const std::string& own) {
    std::size_t length = 1;
    for (const std::string& other : uuids) {
      std::size_t shared = 0;
      while (&other != &own && shared < own.size() && own[shared] == other[shared]) ++shared;
      if (shared + 1 > length) length = shared + 1;
    }
    return own.substr(0, length);
  };
  std::string text;
  for (std::size_t at = 0; at < value.size(); ++at) {
    if (value[at] != '$' && value[at] != '%') {
      text += value[at];
      continue;
    }
    const std::string& uuid = uuids.at(std::size_t(value[at + 1] - '0'));
    text += value[at] == '$' ? uuid : shortest_prefix(uuid);
    ++at;
  }
  return text;
}

}  // namespace berth::test
