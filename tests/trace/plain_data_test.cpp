// SPDX-License-Identifier: Apache-2.0
#include "trace/plain_data.hpp"

#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace plain_data_test {

using namespace berth;

TEST_CASE("values return what they were created from") {
  CHECK(PlainValue().is(PlainKind::none));
  CHECK(PlainValue::boolean(true).as_boolean());
  CHECK(PlainValue::integer(-5).as_integer() == -5);
  CHECK(PlainValue::real(1.5).as_real() == 1.5);
  CHECK(PlainValue::text("abc").as_text() == "abc");
  CHECK(PlainValue::bytes("ab").as_text() == "ab");
  CHECK(PlainValue::bytes("ab").is(PlainKind::bytes));
}

TEST_CASE("lists that grow alternately keep their items in order") {
  PlainData data;
  std::array lists = {data.make(PlainKind::list), data.make(PlainKind::list),
                      data.make(PlainKind::list)};
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::array one = {PlainValue::integer(i)};
    for (std::size_t list = 0; list < lists.size(); ++list)
      if (i % std::int64_t(list + 1) == 0) data.append(lists[list], one);
  }
  for (std::size_t list = 0; list < lists.size(); ++list) {
    std::int64_t expected = 0;
    for (const PlainValue& item : data.items(lists[list])) {
      CHECK(item.as_integer() == expected);
      expected += std::int64_t(list + 1);
    }
    CHECK(expected >= 1000);
  }
  CHECK(data.item_count() == 1000 + 500 + 334);
}

TEST_CASE("lists that grow alternately take a small multiple of their items' memory") {
  PlainData data;
  std::array lists = {data.make(PlainKind::list), data.make(PlainKind::list)};
  const std::array one = {PlainValue::integer(7)};
  for (int i = 0; i < 10'000; ++i)
    for (const PlainValue list : lists) data.append(list, one);
  CHECK(data.memory_bytes() < 5 * data.item_count() * sizeof(PlainValue));
}

TEST_CASE("a dictionary finds the latest value of a text key") {
  PlainData data;
  const PlainValue dict = data.make(PlainKind::dict);
  CHECK(data.find(dict, "a") == nullptr);
  data.append(dict, std::array{PlainValue::text("a"), PlainValue::integer(1),  //
                               PlainValue::integer(7), PlainValue::integer(2)});
  data.append(dict, std::array{PlainValue::text("a"), PlainValue::integer(3)});
  REQUIRE(data.find(dict, "a") != nullptr);
  CHECK(data.find(dict, "a")->as_integer() == 3);
  CHECK(data.find(dict, "7") == nullptr);
}

TEST_CASE("owned texts keep their addresses, and equal texts are stored once") {
  PlainData data;
  const PlainValue first = data.own_text("name");
  for (int i = 0; i < 1000; ++i) data.own_text(std::to_string(i));
  CHECK(data.own_text(std::string("name")).as_text().data() == first.as_text().data());
  CHECK(first.as_text() == "name");
}

}  // namespace plain_data_test
