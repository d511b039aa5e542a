// SPDX-License-Identifier: Apache-2.0
#include "trace/pickle_reader.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "berth/error.hpp"

#include "support/errors.hpp"

namespace pickle_reader_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_literals;
using namespace std::string_view_literals;

namespace {

/// A value as text: Python's, but for texts and bytes, which stand in '' and <>.
std::string show(const PlainData& data, PlainValue value) {
  const auto show_items = [&](const char* begin, const char* end) {
    std::string text = begin;
    for (const PlainValue item : data.items(value)) text += show(data, item) + " ";
    return text + end;
  };
  switch (value.kind()) {
    case PlainKind::none:
      return "None";
    case PlainKind::boolean:
      return value.as_boolean() ? "True" : "False";
    case PlainKind::integer:
      return fmt::format("{}", value.as_integer());
    case PlainKind::wide_integer:
      return "wide";
    case PlainKind::real:
      return fmt::format("{}", value.as_real());
    case PlainKind::text:
      return fmt::format("'{}'", value.as_text());
    case PlainKind::bytes:
      return fmt::format("<{}>", value.as_text());
    case PlainKind::list:
      return show_items("[ ", "]");
    case PlainKind::tuple:
      return show_items("( ", ")");
    case PlainKind::dict:
      return show_items("{ ", "}");
  }
  return {};
}

std::string read(std::string_view pickle, const PlainLimits& limits = {}) {
  PlainData data;
  return show(data, read_pickle("x", pickle, data, limits));
}

std::string refusal(std::string_view pickle, const PlainLimits& limits = {}) {
  return message_of<InvalidArgument>([&] { return read(pickle, limits); });
}

}  // namespace

TEST_CASE("each scalar opcode gives its value") {
  CHECK(read("N."sv) == "None");
  CHECK(read("\x88."sv) == "True");
  CHECK(read("\x89."sv) == "False");
  CHECK(read("I01\n."sv) == "True");
  CHECK(read("I00\n."sv) == "False");
  CHECK(read("I-12\n."sv) == "-12");
  CHECK(read("J\xff\xff\xff\xff."sv) == "-1");
  CHECK(read("J\x00\x00\x00\x80."sv) == "-2147483648");
  CHECK(read("K\xff."sv) == "255");
  CHECK(read("M\x01\x02."sv) == "513");
  CHECK(read("F-1.5e3\n."sv) == "-1500");
  CHECK(read("Fnan\n."sv) == "nan");
  CHECK(read("G\x3f\xf8\x00\x00\x00\x00\x00\x00."sv) == "1.5");
}

TEST_CASE("integers are exact to 64 bits, and wider ones are marked as such") {
  CHECK(read("\x8a\x00."sv) == "0");
  CHECK(read("\x8a\x01\xff."sv) == "-1");
  CHECK(read("\x8a\x02\xff\x00."sv) == "255");
  CHECK(read("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."sv) == "9223372036854775807");
  CHECK(read("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."sv) == "-9223372036854775808");
  CHECK(read("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00."sv) == "wide");
  CHECK(read("\x8b\x03\x00\x00\x00\x01\x02\x03."sv) == "197121");
  CHECK(read("L-9223372036854775808L\n."sv) == "-9223372036854775808");
  CHECK(read("L12\n."sv) == "12");
  CHECK(read("L9223372036854775808L\n."sv) == "wide");
}

TEST_CASE("each opcode of text or bytes gives its value, zero bytes included") {
  CHECK(read("X\x02\x00\x00\x00hi."sv) == "'hi'");
  CHECK(read("\x8c\x02h\x00."sv) == "'h\0'"s);
  CHECK(read("\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi."sv) == "'hi'");
  CHECK(read("C\x02hi."sv) == "<hi>");
  CHECK(read("B\x02\x00\x00\x00hi."sv) == "<hi>");
  CHECK(read("\x8e\x02\x00\x00\x00\x00\x00\x00\x00hi."sv) == "<hi>");
}

TEST_CASE("texts of protocol 0 are decoded to UTF-8") {
  CHECK(read("Vhi\n."sv) == "'hi'");
  CHECK(read("V\xe9\\u20ac\\U0001F600\\u005c\\n\n."sv) == "'\xc3\xa9\u20ac\U0001F600\\\\n'");
  for (const std::string_view bad : {"V\\u12\n."sv, "V\\u12g4\n."sv, "V\\U00110000\n."sv}) {
    CAPTURE(bad);
    CHECK(contains(refusal(bad), "is no text in raw-unicode-escape"));
  }
}

TEST_CASE("containers are built in every way of the format") {
  CHECK(read("]."sv) == "[ ]");
  CHECK(read(")."sv) == "( )");
  CHECK(read("}."sv) == "{ }");
  CHECK(read("(K\x01K\x02l."sv) == "[ 1 2 ]");
  CHECK(read("(K\x01K\x02t."sv) == "( 1 2 )");
  CHECK(read("(K\x01K\x02\x64."sv) == "{ 1 2 }");
  CHECK(read("K\x01\x85."sv) == "( 1 )");
  CHECK(read("K\x01K\x02\x86."sv) == "( 1 2 )");
  CHECK(read("K\x01K\x02K\x03\x87."sv) == "( 1 2 3 )");
  CHECK(read("]K\x01\x61K\x02\x61."sv) == "[ 1 2 ]");
  CHECK(read("](K\x01K\x02\x65(K\x03\x65(e."sv) == "[ 1 2 3 ]");
  CHECK(read("}K\x01Ns."sv) == "{ 1 None }");
  CHECK(read("}(K\x01NK\x02Nu."sv) == "{ 1 None 2 None }");
}

TEST_CASE("the memo returns the stored value, shared and not copied") {
  // The list grows after it was remembered: both uses see it.
  CHECK(read("\x80\x02](]q\x00h\x00K\x07\x61\x65."sv) == "[ [ 7 ] [ 7 ] ]");
  CHECK(read("\x80\x04](]\x94\x8c\x01x\x94h\x01\x65."sv) == "[ [ ] 'x' 'x' ]");
  CHECK(read("(K\x05p0\ng0\nl."sv) == "[ 5 5 ]");
  CHECK(read("\x80\x02K\x05r\x01\x00\x00\x00j\x01\x00\x00\x00\x86."sv) == "( 5 5 )");
}

TEST_CASE("a value that contains itself is read without extra memory") {
  PlainData data;
  const PlainValue list = read_pickle("x", "\x80\x02]q\x00h\x00\x61."sv, data);
  REQUIRE(data.items(list).size() == 1);
  CHECK(data.items(data.items(list)[0]).size() == 1);
}

TEST_CASE("exponentially nested shared lists take memory in proportion to their text") {
  // Each list holds the one before it ten times: 10^40 values, were they copied.
  constexpr int levels = 40;
  std::string pickle = "\x80\x04(]\x94";
  for (int level = 0; level < levels; ++level) {
    pickle += "](";
    for (int i = 0; i < 10; ++i) pickle += "h"s + static_cast<char>(level);
    pickle += "e\x94";
  }
  PlainData data;
  const PlainValue all = read_pickle("x", pickle + "t.", data);
  CHECK(data.items(all).size() == levels + 1);
  CHECK(data.item_count() == 10 * levels + levels + 1);
}

TEST_CASE("every opcode that names, calls or builds a class is refused by name and offset") {
  struct Case {
    std::string_view opcode;
    std::string_view name;
  };
  for (const Case& refused : {
           Case{"cos\nsystem\n", "GLOBAL"},
           Case{"\x93", "STACK_GLOBAL"},
           Case{"R", "REDUCE"},
           Case{"b", "BUILD"},
           Case{"ios\nsystem\n", "INST"},
           Case{"o", "OBJ"},
           Case{"\x81", "NEWOBJ"},
           Case{"\x92", "NEWOBJ_EX"},
           Case{"\x82\x01", "EXT1"},
           Case{"\x83\x01\x01", "EXT2"},
           Case{"\x84\x01\x01\x01\x01", "EXT4"},
           Case{"Pid\n", "PERSID"},
           Case{"Q", "BINPERSID"},
       }) {
    CAPTURE(refused.name);
    CHECK(refusal("\x80\x02\x8c\x02os\x8c\x06system"s + std::string(refused.opcode) + ".") ==
          fmt::format("x: byte 14: opcode {} names or builds a class; accepted: a complete pickle "
                      "of numbers, texts, lists, tuples and dictionaries",
                      refused.name));
  }
}

TEST_CASE("unsupported opcodes are refused by name, and unknown bytes by number") {
  struct Case {
    char opcode;
    std::string_view name;
  };
  for (const Case& refused :
       {Case{'S', "STRING"}, Case{'T', "BINSTRING"}, Case{'U', "SHORT_BINSTRING"},
        Case{'\x8f', "EMPTY_SET"}, Case{'\x90', "ADDITEMS"}, Case{'\x91', "FROZENSET"},
        Case{'\x96', "BYTEARRAY8"}, Case{'\x97', "NEXT_BUFFER"}, Case{'\x98', "READONLY_BUFFER"},
        Case{'0', "POP"}, Case{'1', "POP_MARK"}, Case{'2', "DUP"}}) {
    CAPTURE(refused.name);
    CHECK(contains(refusal("N"s + refused.opcode),
                   fmt::format("byte 1: opcode {} is not of plain data", refused.name)));
  }
  CHECK(contains(refusal("\xff"sv), "byte 0: 0xff is not a pickle opcode"));
  CHECK(contains(refusal("\x80\x06."sv), "protocol 6; the last that is known is 5"));
}

TEST_CASE("a pickle is refused wherever it is cut off") {
  constexpr auto pickle =
      "\x80\x04}\x94(\x8c\x01x\x94]\x94(K\x01G\x3f\xf8\x00\x00\x00\x00\x00\x00\x65u."sv;
  CHECK(read(pickle) == "{ 'x' [ 1 1.5 ] }");
  for (std::size_t size = 0; size < pickle.size(); ++size) {
    CAPTURE(size);
    CHECK(contains(refusal(pickle.substr(0, size)), "cut off"));
  }
  CHECK(contains(refusal("I12"sv), "cut off: a line without an end"));
}

TEST_CASE("announced lengths are checked against the data") {
  CHECK(contains(refusal("X\xff\xff\xff\xff."sv),
                 "byte 0: cut off: 4294967295 bytes are needed, 1 are left"));
  CHECK(contains(refusal("\x8d\xff\xff\xff\xff\xff\xff\xff\xff."sv),
                 "18446744073709551615 bytes are needed"));
  CHECK(contains(refusal("\x8e\xff\xff\xff\xff\xff\xff\xff\x7f."sv), "cut off"));
  CHECK(contains(refusal("\x8b\xff\xff\xff\xff."sv), "cut off"));
  CHECK(contains(refusal("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff."sv), "cut off: a frame"));
}

TEST_CASE("missing values, marks and containers are errors") {
  CHECK(contains(refusal("."sv), "the pickle ends with 0 values instead of one"));
  CHECK(contains(refusal("NN."sv), "the pickle ends with 2 values instead of one"));
  CHECK(contains(refusal("N(."sv), "the pickle ends with 1 values"));
  CHECK(contains(refusal("l."sv), "a mark is missing"));
  CHECK(contains(refusal("e."sv), "a mark is missing"));
  CHECK(contains(refusal("u."sv), "a mark is missing"));
  CHECK(contains(refusal("(e."sv), "1 values are needed, 0 are there"));
  CHECK(contains(refusal("](N\x61."sv), "2 values are needed, 1 are there"));
  CHECK(contains(refusal("\x87."sv), "3 values are needed, 0 are there"));
  CHECK(contains(refusal("N(\x85."sv), "1 values are needed, 0 are there"));
  CHECK(contains(refusal("}N\x61."sv), "a list is needed, a dictionary is there"));
  CHECK(contains(refusal("]NNs."sv), "a dictionary is needed, a list is there"));
  CHECK(contains(refusal("}(Nu."sv), "1 keys and values are no pairs"));
  CHECK(contains(refusal("(N\x64."sv), "1 keys and values are no pairs"));
  CHECK(contains(refusal("Ix\n."sv), "\"x\" is no integer"));
  CHECK(contains(refusal("L\n."sv), "\"\" is no integer"));
  CHECK(contains(refusal("L5 L\n."sv), "\"5 L\" is no integer"));
  CHECK(contains(refusal("F1.5x\n."sv), "\"1.5x\" is no number"));
}

TEST_CASE("the memo refuses unknown entries and huge indexes") {
  CHECK(contains(refusal("h\x00."sv), "memo index 0 was never set"));
  CHECK(contains(refusal("\x80\x02Nq\x01h\x00."sv), "memo index 0 was never set"));
  CHECK(contains(refusal("\x94."sv), "1 values are needed"));
  CHECK(contains(refusal("Nr\xff\xff\xff\xff."sv), "memo index 4294967295 is out of order"));
  CHECK(contains(refusal("Np99999999999\n."sv), "memo index 99999999999 is out of order"));
  CHECK(contains(refusal("Np-1\n."sv), "\"-1\" is no memo index"));
  CHECK(contains(refusal("Ng99999999999999999999\n."sv), "is no memo index"));
}

TEST_CASE("limits of values and depth are exact") {
  CHECK(read("(NNNl."sv, {.values = 4, .depth = 1}) == "[ None None None ]");
  CHECK(contains(refusal("(NNNl."sv, {.values = 3, .depth = 1}), "more than 3 values"));
  CHECK(contains(refusal("((NNll."sv, {.values = 9, .depth = 1}), "nested more than 1 deep"));
  CHECK(contains(refusal(std::string(2000, '(')), "nested more than 1000 deep"));
  CHECK(contains(refusal("NNNr\x02\x00\x00\x00."sv, {.values = 2, .depth = 1}), "more than 2"));
  CHECK(contains(refusal("\x80\x02Nr\x02\x00\x00\x00."sv, {.values = 2, .depth = 1}),
                 "memo index 2 is out of order"));
}

TEST_CASE("data after the end is ignored") {
  CHECK(read("N.cos\nsystem\n"sv) == "None");
}

}  // namespace pickle_reader_test
