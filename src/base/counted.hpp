// SPDX-License-Identifier: Apache-2.0
// Numbers in messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace berth {

/// "1 allocation", "2 allocations".
std::string counted(std::uint64_t count, std::string_view noun);

/// "were" beside counted(), or "was".
constexpr const char* were(std::uint64_t count) {
  return count == 1 ? "was" : "were";
}

/// Text behind a size or a count that is too large for any memory: the program has probably
/// converted a negative number. Empty for others.
constexpr const char* negative_hint(std::size_t number) {
  return number > std::size_t{std::numeric_limits<std::ptrdiff_t>::max()}
             ? ", perhaps a negative number"
             : "";
}

}  // namespace berth
