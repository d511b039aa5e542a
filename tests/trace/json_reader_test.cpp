// SPDX-License-Identifier: Apache-2.0
#include "trace/json_reader.hpp"

#include <string>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "support/errors.hpp"

namespace json_reader_test {

using namespace berth;
using namespace berth::test;

namespace {

std::string refusal(std::string_view json, const PlainLimits& limits = {}) {
  return message_of<InvalidArgument>([&] {
    PlainData data;
    return read_json("x", json, data, limits);
  });
}

}  // namespace

TEST_CASE("JSON values become plain values of the same kind") {
  PlainData data;
  const PlainValue root = read_json(
      "x", R"( {"a": [null, true, -5, 9223372036854775807, 18446744073709551615, 1.5, "t\u00e9"],
               "b": {}} )",
      data);
  REQUIRE(root.is(PlainKind::dict));
  const PlainValue* const list = data.find(root, "a");
  REQUIRE(list != nullptr);
  const auto items = data.items(*list);
  REQUIRE(items.size() == 7);
  CHECK(items[0].is(PlainKind::none));
  CHECK(items[1].as_boolean());
  CHECK(items[2].as_integer() == -5);
  CHECK(items[3].as_integer() == 9223372036854775807);
  CHECK(items[4].is(PlainKind::wide_integer));
  CHECK(items[5].as_real() == 1.5);
  CHECK(items[6].as_text() == "t\u00e9");
  CHECK(data.find(root, "b")->is(PlainKind::dict));
}

TEST_CASE("incomplete or malformed JSON is refused with its position") {
  CHECK(refusal("{\"a\": 1,}") == "x: byte 9: no valid JSON; accepted: one complete JSON value");
  for (const char* const bad : {"{", "[1", "{\"a\"", "{\"a\":}", "[1] 2", "\"abc", "nul", "[01]",
                                "[\"\xff\"]", "[1e999]", "{1: 2}"}) {
    CAPTURE(bad);
    CHECK(contains(refusal(bad), "no valid JSON"));
  }
}

TEST_CASE("limits of values and depth apply to JSON too") {
  CHECK_NOTHROW([] {
    PlainData data;
    static_cast<void>(read_json("x", "[[1]]", data, {.values = 3, .depth = 2}));
  }());
  CHECK(contains(refusal("[[1]]", {.values = 2, .depth = 2}), "more than 2 values"));
  CHECK(contains(refusal("[[1]]", {.values = 3, .depth = 1}), "nested more than 1 deep"));
  CHECK(contains(refusal(std::string(100'000, '[')), "nested more than 1000 deep"));
}

}  // namespace json_reader_test
