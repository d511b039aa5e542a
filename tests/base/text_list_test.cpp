// SPDX-License-Identifier: Apache-2.0
#include "base/text_list.hpp"

#include <doctest/doctest.h>

namespace text_list_test {

using namespace berth;

using Parts = std::vector<std::string_view>;

TEST_CASE("trim takes spaces from both ends, and nothing else") {
  CHECK(trim("  a b ") == "a b");
  CHECK(trim("   ").empty());
  CHECK(trim("").empty());
  CHECK(trim("\ta\n") == "\ta\n");
}

TEST_CASE("split keeps empty parts, so that the caller can refuse them") {
  CHECK(split("a,b", ',') == Parts{"a", "b"});
  CHECK(split(",a,", ',') == Parts{"", "a", ""});
  CHECK(split("", ',') == Parts{""});
}

TEST_CASE("join keeps empty parts, and has a separator between two parts only") {
  CHECK(join_texts(Parts{"a", "b", "c"}, ", ") == "a, b, c");
  CHECK(join_texts(Parts{"", "a", ""}, ",") == ",a,");
  CHECK(join_texts(Parts{"a"}, ",") == "a");
  CHECK(join_texts(Parts{}, ",").empty());
}

}  // namespace text_list_test
