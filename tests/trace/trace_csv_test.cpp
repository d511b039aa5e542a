// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "berth/error.hpp"
#include "berth/trace.hpp"

#include "support/errors.hpp"
#include "trace/trace_text.hpp"

namespace trace_csv_test {

using namespace berth;
using namespace berth::test;

namespace {

Trace parse_rows(std::string_view rows) {
  return parse_trace("x.csv", std::string(kColumnLine) + std::string(rows));
}

/// The message for rows that are refused. The line of columns is line 1.
std::string refusal(std::string_view rows) {
  return message_of<InvalidArgument>([&] { return parse_rows(rows); });
}

}  // namespace

TEST_CASE("every operation of the format is read with all its fields") {
  constexpr std::string_view rows =
      "init_alloc,3,512,0,0,0\n"
      "init_segment,1,2097152,0,0,0\n"
      "reserved_total,-1,4194304,0,0,0\n"
      "alloc,0,18446744073709551102,2147483647,1,18446744073709551615\n"
      "alloc,9223372036854775807,1,1,2147483647,5\n"
      "free_requested,3,512,0,0,6\n"
      "segment_alloc,2,2097152,0,0,7\n"
      "segment_map,3,2097152,0,0,8\n"
      "segment_unmap,3,2097152,0,0,9\n"
      "segment_free,2,2097152,0,0,10\n"
      "free_completed,3,512,0,0,11\n"
      "oom,-1,1073741824,0,0,12\n"
      "snapshot,-1,0,0,0,13\n"
      "free,0,18446744073709551102,2147483647,1,14\n";
  CHECK(rows_of(parse_rows(rows)) == rows);
}

TEST_CASE("header lines are kept in order, trimmed, and with colons in their values") {
  const Trace trace = parse_trace("x.csv", "# source: a: b\n#key:value\n# \n# remark\n" +
                                               std::string(kColumnLine) + "alloc,1,2,0,0,0\n");
  REQUIRE(trace.header.size() == 4);
  CHECK(trace.header[0] == std::pair<std::string, std::string>("source", "a: b"));
  CHECK(trace.header[1] == std::pair<std::string, std::string>("key", "value"));
  CHECK(trace.header[2] == std::pair<std::string, std::string>("", ""));
  CHECK(trace.header[3] == std::pair<std::string, std::string>("", "remark"));
  CHECK(trace.name == "x.csv");
}

TEST_CASE("a trace without rows is an empty trace") {
  CHECK(parse_rows("").events.empty());
}

TEST_CASE("CRLF, a byte order mark, empty lines and a missing last line end are accepted") {
  const Trace trace = parse_trace("x.csv",
                                  "\xef\xbb\xbf# a: b\r\nop,id,bytes,stream,device,t_us\r\n\r\n"
                                  "alloc,1,2,0,0,0\r\n\nfree,1,2,0,0,1");
  CHECK(rows_of(trace) == "alloc,1,2,0,0,0\nfree,1,2,0,0,1\n");
  REQUIRE(trace.header.size() == 1);
  CHECK(trace.header[0].second == "b");
}

TEST_CASE("timestamps may decrease") {
  CHECK(parse_rows("alloc,1,2,0,0,9\nfree,1,2,0,0,3\n").events.size() == 2);
}

TEST_CASE("a file without the header row is refused with the accepted columns") {
  CHECK(message_of<InvalidArgument>([] { return parse_trace("x.csv", "# a: b\n"); }) ==
        "x.csv: no line of column names; accepted: op,id,bytes,stream,device,t_us");
  CHECK(message_of<InvalidArgument>(
            [] { return parse_trace("x.csv", "# a: b\nalloc,1,2,0,0,0\n"); }) ==
        "x.csv:2: \"alloc,1,2,0,0,0\" is no line of a trace's header; accepted: `# key: value` "
        "lines, then op,id,bytes,stream,device,t_us; or a PyTorch memory snapshot");
}

TEST_CASE("an unknown operation is refused with its line and the known operations") {
  CHECK(refusal("alloc,1,2,0,0,0\n\nfre,1,2,0,0,0\n") ==
        "x.csv:4: \"fre\" is not an operation; accepted: init_alloc, alloc, free, free_requested, "
        "free_completed, init_segment, segment_alloc, segment_free, segment_map, segment_unmap, "
        "reserved_total, oom, snapshot");
  CHECK(contains(refusal("Alloc,1,2,0,0,0\n"), "\"Alloc\" is not an operation"));
  CHECK(contains(refusal(" alloc,1,2,0,0,0\n"), "\" alloc\" is not an operation"));
  CHECK(contains(refusal(",1,2,0,0,0\n"), "\"\" is not an operation"));
}

TEST_CASE("a row with more or fewer columns is refused") {
  CHECK(refusal("alloc,1,2,0,0\n") ==
        "x.csv:2: \"alloc,1,2,0,0\" has 5 columns; accepted: the 6 of "
        "op,id,bytes,stream,device,t_us");
  CHECK(contains(refusal("alloc,1,2,0,0,0,\n"), "has 7 columns"));
  CHECK(contains(refusal("alloc\n"), "has 1 column; accepted: the 6"));
}

TEST_CASE("a field that is no number, or out of range, is refused with its column and range") {
  CHECK(refusal("alloc,x,2,0,0,0\n") ==
        "x.csv:2: \"x\" is no id; accepted: a whole number from 0 to 9223372036854775807");
  CHECK(
      contains(refusal("alloc,-1,2,0,0,0\n"), "\"-1\" is no id; accepted: a whole number from 0 "));
  CHECK(contains(refusal("snapshot,-2,2,0,0,0\n"), "accepted: a whole number from -1 to"));
  CHECK(contains(refusal("alloc,9223372036854775808,2,0,0,0\n"), "is no id"));
  CHECK(contains(refusal("alloc,1,-2,0,0,0\n"), "\"-2\" is no bytes"));
  CHECK(contains(refusal("alloc,1,18446744073709551616,0,0,0\n"), "is no bytes"));
  CHECK(contains(refusal("alloc,1,1.5,0,0,0\n"), "\"1.5\" is no bytes"));
  CHECK(contains(refusal("alloc,1,,0,0,0\n"), "\"\" is no bytes"));
  CHECK(contains(refusal("alloc,1,2,-1,0,0\n"), "\"-1\" is no stream"));
  CHECK(contains(refusal("alloc,1,2,2147483648,0,0\n"), "is no stream"));
  CHECK(contains(refusal("alloc,1,2,0,-1,0\n"), "\"-1\" is no device"));
  CHECK(contains(refusal("alloc,1,2,0,0x1,0\n"), "\"0x1\" is no device"));
  CHECK(contains(refusal("alloc,1,2,0,0,-1\n"), "\"-1\" is no t_us"));
  CHECK(contains(refusal("alloc,1,2,0,0, 1\n"), "\" 1\" is no t_us"));
}

TEST_CASE("an id that is allocated a second time is refused, live or freed") {
  CHECK(refusal("alloc,7,2,0,0,0\nalloc,7,2,0,0,0\n") ==
        "x.csv:3: block 7 is allocated again, first in line 2; accepted: a new id");
  CHECK(contains(refusal("init_alloc,7,2,0,0,0\nfree,7,2,0,0,0\nalloc,7,2,0,0,0\n"), "x.csv:4: "));
}

TEST_CASE("a free of a block that is not live is refused") {
  CHECK(refusal("free,7,2,0,0,0\n") ==
        "x.csv:2: block 7 is freed, but was never allocated; accepted: the id of a live block");
  CHECK(refusal("alloc,7,2,0,0,0\nfree,7,2,0,0,0\nfree_requested,7,2,0,0,0\n") ==
        "x.csv:4: block 7 is freed again, first in line 3; accepted: one free for each allocation");
}

TEST_CASE("a free with other bytes or another device than the allocation is refused") {
  CHECK(
      refusal("alloc,7,2,0,0,0\nfree,7,3,0,0,0\n") ==
      "x.csv:3: block 7 is freed with 3 bytes; accepted: the 2 of line 2, where it was allocated");
  CHECK(contains(refusal("alloc,7,2,0,0,0\nfree_requested,7,2,0,0,0\nfree_completed,7,3,0,0,0\n"),
                 "x.csv:4: block 7 is freed with 3 bytes"));
  CHECK(refusal("alloc,7,2,0,0,0\nfree,7,2,0,1,0\n") ==
        "x.csv:3: block 7 is freed on device 1; accepted: device 0, as in line 2");
}

TEST_CASE("free_requested and free_completed come in that order, once each, and free alone") {
  CHECK(refusal("alloc,7,2,0,0,0\nfree_completed,7,2,0,0,0\n") ==
        "x.csv:3: free_completed of block 7, whose free was not requested; accepted: "
        "free_requested first, or free");
  CHECK(refusal("alloc,7,2,0,0,0\nfree_requested,7,2,0,0,0\nfree,7,2,0,0,0\n") ==
        "x.csv:4: block 7 is freed, but its free was requested in line 3; accepted: "
        "free_completed");
  CHECK(contains(refusal("alloc,7,2,0,0,0\nfree_requested,7,2,0,0,0\nfree_requested,7,2,0,0,0\n"),
                 "its free was requested in line 3"));
}

TEST_CASE(
    "a free may name another stream than the allocation, and a requested free may never complete") {
  CHECK(parse_rows("alloc,7,2,0,0,0\nfree_requested,7,2,3,0,0\n").events.size() == 2);
}

TEST_CASE("segment ids stand for addresses and may be reused") {
  CHECK(parse_rows("segment_alloc,1,2,0,0,0\nsegment_free,1,2,0,0,0\nsegment_alloc,1,2,0,0,0\n"
                   "segment_free,9,5,0,0,0\nalloc,1,2,0,0,0\n")
            .events.size() == 5);
}

TEST_CASE("live bytes beyond 64 bits are refused") {
  CHECK(refusal("alloc,1,18446744073709551615,0,0,0\nalloc,2,1,0,0,0\n") ==
        "x.csv:3: block 2 of 1 bytes; accepted: less than 2^64 bytes live at once");
  CHECK(parse_rows("alloc,1,18446744073709551615,0,0,0\nfree,1,18446744073709551615,0,0,0\n"
                   "alloc,2,1,0,0,0\n")
            .events.size() == 3);
}

TEST_CASE("bytes from the file cannot break or lengthen the line of an error") {
  const std::string message = refusal("\x1b[31m\xff\x01" + std::string(10'000, 'a') + ",1\n");
  CHECK(contains(message, "\"\\x1b[31m\\xff\\x01aaa"));
  CHECK(message.size() < 300);
  CHECK(contains(message_of<InvalidArgument>([] { return parse_trace("a\nb.csv", "x"); }),
                 "a\\x0ab.csv:1: "));
}

}  // namespace trace_csv_test
