// SPDX-License-Identifier: Apache-2.0
#include "base/nearest_word.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace berth {
namespace {

/// A longer word is not considered misspelled.
constexpr std::size_t kWordMax = 64;

/// The edit distance: the number of characters to insert, delete or replace.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() < 4 || word.size() > kWordMax || known.empty()) return {};
  const auto distance = [word](std::string_view other) {
    const bool part = word.find(other) != word.npos || other.find(word) != word.npos;
    return std::pair(!part, edit_distance(word, other));
  };
  const std::string_view best = *std::ranges::min_element(known, {}, distance);
  const auto [looks_alike, edits] = distance(best);
  return looks_alike && edits > word.size() / 3 ? std::string_view() : best;
}

}  // namespace berth
