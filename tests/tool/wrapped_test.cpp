// SPDX-License-Identifier: Apache-2.0
#include "tool/wrapped.hpp"

#include <doctest/doctest.h>

using berth::tool::wrapped;

TEST_CASE("words are wrapped into lines of at most the width") {
  CHECK(wrapped("one two three", 0, 7) == "one two\nthree\n");
  CHECK(wrapped("one two three", 0, 6) == "one\ntwo\nthree\n");
  CHECK(wrapped("one two three", 2, 9) == "  one two\n  three\n");
  CHECK(wrapped("one two", 0) == "one two\n");
  CHECK(wrapped("", 4).empty());
}

TEST_CASE("a word that is wider than a line is cut and loses nothing") {
  CHECK(wrapped("abcdefgh", 0, 3) == "abc\ndef\ngh\n");
  CHECK(wrapped("a bcdefg", 1, 4) == " a\n bcd\n efg\n");
  CHECK(wrapped("abc def", 0, 3) == "abc\ndef\n");
}
