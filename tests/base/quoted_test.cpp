// SPDX-License-Identifier: Apache-2.0
#include "base/quoted.hpp"

#include <string>

#include <doctest/doctest.h>

namespace quoted_test {

using namespace berth;

TEST_CASE("a quotation is short and consists of printable ASCII") {
  CHECK(berth::quoted("cuda:1") == "\"cuda:1\"");
  CHECK(berth::quoted("a\x1b[31m\n\x7f\xc3\xa9") == "\"a\\x1b[31m\\x0a\\x7f\\xc3\\xa9\"");
  CHECK(berth::quoted(std::string(41, 'x')) == "\"" + std::string(40, 'x') + "...\"");
}

TEST_CASE("a file name keeps characters of UTF-8, and control characters are escaped") {
  CHECK(on_one_line("/tmp/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") ==
        "/tmp/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  CHECK(on_one_line("a\x1b[31m\n\x7f") == "a\\x1b[31m\\x0a\\x7f");
  CHECK(on_one_line(std::string_view("\0", 1)) == "\\x00");
}

TEST_CASE("control characters beyond ASCII, and bytes that are no UTF-8, are escaped") {
  CHECK(on_one_line("\xc2\x9b") == "\\xc2\\x9b");           // U+009B, which begins a command
  CHECK(on_one_line("\xc2\xa0") == "\xc2\xa0");             // U+00A0
  CHECK(on_one_line("\x9b\xff\xc3") == "\\x9b\\xff\\xc3");  // no character, and one cut off
  CHECK(on_one_line("\xc0\x8a") == "\\xc0\\x8a");           // a line break, too long
  CHECK(on_one_line("\xe0\x82\x9b") == "\\xe0\\x82\\x9b");  // U+009B, too long
  CHECK(on_one_line("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a surrogate
  CHECK(on_one_line("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
}

TEST_CASE("a long file name keeps its beginning and its end") {
  const std::string name = "/" + std::string(100'000, 'd') + "/trace.csv";
  const std::string line = on_one_line(name);
  CHECK(line.size() == 243);
  CHECK(line.starts_with("/ddd"));
  CHECK(line.ends_with("d/trace.csv"));
  CHECK(on_one_line(std::string(240, 'x')) == std::string(240, 'x'));
}

}  // namespace quoted_test
