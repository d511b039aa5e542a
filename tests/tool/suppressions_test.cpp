// SPDX-License-Identifier: Apache-2.0
#include "tool/suppressions.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace suppressions_test {

using namespace berth::tool;

TEST_CASE("a star stands for any text, and a pattern for a part of the line") {
  CHECK(has_match("race: a reads, while b writes", "race: a"));
  CHECK(has_match("race: a reads, while b writes", "a reads"));
  CHECK(has_match("race: a reads, while b writes", "race*b writes"));
  CHECK(has_match("race: a reads, while b writes", "*while*"));
  CHECK(has_match("aab", "a*ab"));
  CHECK(has_match("anything", ""));
  CHECK_FALSE(has_match("race: a reads, while b writes", "b*a reads"));
  CHECK_FALSE(has_match("ab", "ab*b"));
  CHECK_FALSE(has_match("race", "races"));
}

TEST_CASE("the first suppression that matches a line of a finding applies") {
  SimFinding finding;
  finding.text = "race: a reads, while b writes";
  finding.uses = {{"a", "reads", 4, {{"f.py", 3, "prefetch", "", 0}}}, {"b", "writes", 4, {}}};
  std::vector<Suppression> all = {
      {"leak", "1", "", 0}, {"in prefetch", "2", "", 0}, {"race", "3", "", 0}};
  CHECK(find_suppression(all, finding)->reason == "2");
  finding.uses.clear();
  CHECK(find_suppression(all, finding)->reason == "3");
  finding.uses = {{"a", "reads", 4, {{"f.py", 3, "warm_up", "", 0}}}, {"b", "writes", 4, {}}};
  std::vector<Suppression> over_lines = {{"race: *in warm_up", "4", "", 0}};
  CHECK(find_suppression(over_lines, finding)->reason == "4");
  finding.text = "stall";
  CHECK(find_suppression(all, finding) == nullptr);
}

}  // namespace suppressions_test
