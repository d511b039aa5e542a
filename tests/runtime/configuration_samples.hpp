// SPDX-License-Identifier: Apache-2.0
// What the tests of both kinds of configuration text share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "berth/configuration.hpp"

#include "support/errors.hpp"
#include "support/thinned.hpp"

namespace berth::test {

/// The values of all keys, "streams_max" and the like.
inline std::map<std::string, std::string> values_of(const RuntimeOptions& options) {
  std::map<std::string, std::string> values;
  for (const ConfigurationEntry& entry : describe(options)) values[entry.key] = entry.value;
  return values;
}

/// The values that differ from those of `before`, as text: "granule_bytes=4MiB,streams_max=1".
inline std::string difference(const RuntimeOptions& before, const RuntimeOptions& after) {
  const auto old_values = values_of(before);
  std::string text;
  for (const auto& [key, value] : values_of(after)) {
    if (value == old_values.at(key)) continue;
    if (!text.empty()) text += ',';
    text += key;
    text += '=';
    text += value;
  }
  return text;
}

/// Changes of `seeds`, some thousand, or fewer with a sanitizer: bytes replaced, inserted and
/// erased, ends cut off, and parts of one inserted into another. Each is passed to `take`.
inline void for_mutations(const std::vector<std::string>& seeds,
                          const std::function<void(const std::string&)>& take) {
  const std::size_t rounds = Thinned(5).part_of(20'000);
  constexpr std::string_view kTelling = ",=:[]>% \t\n.-+0129TeGnone";
  std::mt19937 random(20261121);
  const auto below = [&random](std::size_t limit) { return std::size_t{random()} % limit; };
  const auto byte = [&] {
    return below(4) == 0 ? static_cast<char>(below(256)) : kTelling[below(kTelling.size())];
  };
  for (std::size_t round = 0; round < rounds; ++round) {
    std::string text = seeds[below(seeds.size())];
    for (std::size_t changes = below(5); changes > 0; --changes) {
      const std::size_t at = below(text.size() + 1);
      switch (below(5)) {
        case 0:
          text.insert(at, 1, byte());
          break;
        case 1:
          text.erase(at, 1 + below(3));
          break;
        case 2:
          text.resize(at);
          break;
        case 3:
          text.insert(at, seeds[below(seeds.size())]);
          break;
        default:
          if (at < text.size()) text[at] = byte();
      }
    }
    take(text);
  }
}

/// What any text must end in: it is read, or refused with one printable line of bounded length.
/// Returns whether it was read.
inline bool read_or_refused(const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const InvalidArgument& error) {
    const std::string_view message = error.what();
    CHECK(message.size() < 16'384);
    CHECK(std::ranges::all_of(message, [](char c) { return c >= 0x20 && c < 0x7f; }));
    return false;
  }
}

}  // namespace berth::test
