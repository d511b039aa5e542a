// SPDX-License-Identifier: Apache-2.0
#include "berth/local_rank.hpp"

#include <charconv>
#include <limits>
#include <string>

#include "berth/error.hpp"

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/quoted.hpp"
#include "device/local_rank_variables.hpp"

namespace berth {
namespace {

int parse_rank(const char* variable, const std::string& text) {
  const char* const end = text.data() + text.size();
  int rank = 0;
  const auto [stop, failure] = std::from_chars(text.data(), end, rank);
  if (failure != std::errc() || stop != end || rank < 0) {
    throw InvalidArgument(format_text(
        "{}={} is not a valid local rank; accepted: a number from 0 to {} in decimal digits",
        variable, quoted(text), std::numeric_limits<int>::max()));
  }
  return rank;
}

}  // namespace

std::optional<LocalRank> local_rank() {
  for (const char* const variable : kLocalRankVariables) {
    if (const auto text = env(variable)) return LocalRank{parse_rank(variable, *text), variable};
  }
  return std::nullopt;
}

}  // namespace berth
