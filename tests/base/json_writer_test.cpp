// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"

#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace json_writer_test {

using namespace berth;
using Json = nlohmann::ordered_json;

namespace {

std::string written(std::string_view text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

/// What another writer makes of it.
std::string expected(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

TEST_CASE("objects, arrays and values of each type are written on one line") {
  JsonWriter json;
  json.begin_object()
      .field("text", "a")
      .field("truth", true)
      .field("least", std::numeric_limits<std::int64_t>::min())
      .field("most", std::numeric_limits<std::uint64_t>::max())
      .key("nothing")
      .null()
      .key("empty")
      .begin_array()
      .end_array()
      .key("list")
      .begin_array()
      .value(1)
      .begin_object()
      .end_object()
      .value(std::string("b"))
      .end_array()
      .end_object();
  CHECK(std::move(json).take() ==
        R"({"text":"a","truth":true,"least":-9223372036854775808,"most":18446744073709551615,)"
        R"("nothing":null,"empty":[],"list":[1,{},"b"]})");
}

TEST_CASE("every byte and every pair of bytes is written as the reference writer does") {
  for (unsigned first = 0; first < 256; ++first) {
    const std::string one(1, static_cast<char>(first));
    REQUIRE(written(one) == expected(one));
    for (unsigned second = 0; second < 256; ++second) {
      const std::string two = one + static_cast<char>(second);
      REQUIRE_MESSAGE(written(two) == expected(two), first, " ", second);
    }
  }
}

TEST_CASE("random text near the bounds of UTF-8 is written as the reference writer does") {
  constexpr unsigned char bytes[] = {0x00, 0x1f, 0x22, 0x41, 0x5c, 0x7f, 0x80, 0x8f, 0x90, 0x9f,
                                     0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed,
                                     0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
  std::minstd_rand random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (std::size_t size = random() % 8; size > 0; --size)
      text += static_cast<char>(bytes[random() % std::size(bytes)]);
    REQUIRE_MESSAGE(written(text) == expected(text), "round ", round);
  }
}

}  // namespace json_writer_test
