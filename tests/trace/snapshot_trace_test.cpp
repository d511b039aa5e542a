// SPDX-License-Identifier: Apache-2.0
// Memory snapshots as JSON text, which is the readable one of their encodings.
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "berth/error.hpp"
#include "berth/trace.hpp"

#include "support/errors.hpp"
#include "trace/snapshot_samples.hpp"
#include "trace/trace_text.hpp"

namespace snapshot_trace_test {

using namespace berth;
using namespace berth::test;

namespace {

std::string event(std::string_view action, int address, int size, std::string_view more = "") {
  return fmt::format(R"({{"action": "{}", "addr": {}, "size": {}{}}})", action, address, size,
                     more);
}

/// A snapshot of device 0 with these events and segments, each a list without its brackets.
std::string snapshot(std::string_view events, std::string_view segments = "") {
  return fmt::format(R"({{"device_traces": [[{}]], "segments": [{}]}})", events, segments);
}

std::string rows(const std::string& json) {
  return rows_of(parse_trace("x.json", json));
}

std::string refusal(const std::string& json) {
  return message_of<InvalidArgument>([&] { return parse_trace("x.json", json); });
}

constexpr std::string_view kAccepted =
    "; accepted: what torch.cuda.memory._dump_snapshot() writes, or the same as JSON";

}  // namespace

TEST_CASE("a snapshot is the same trace in every protocol of pickle and as JSON") {
  constexpr std::string_view expected =
      // Before the recording: by their frees, then by the segments at the end.
      "init_alloc,1,700,0,0,0\n"
      "init_alloc,6,64,2,0,0\n"
      "init_alloc,7,512,0,0,0\n"
      "init_segment,3,20971520,2,0,0\n"
      "init_segment,4,2097152,0,0,0\n"
      "reserved_total,-1,23068672,0,0,0\n"
      "reserved_total,-1,4194304,0,1,0\n"
      // The recording: both devices by time, each in its own order.
      "segment_map,1,2097152,1,1,0\n"
      "free,1,700,0,0,1\n"
      "segment_alloc,2,2097152,0,0,10\n"
      "alloc,2,1000,0,0,11\n"
      "alloc,3,500,2,0,12\n"
      "free_requested,2,1000,0,0,13\n"
      "free_completed,2,1000,0,0,13\n"
      "alloc,4,4000,1,1,13\n"
      "alloc,5,300,0,0,15\n"
      "free_requested,3,500,2,0,15\n"
      "free_requested,6,64,2,0,16\n"
      "oom,-1,1099511627776,2,0,17\n"
      "snapshot,-1,0,0,0,18\n"
      "segment_free,3,20971520,2,0,20\n";
  for (std::size_t protocol = 0; protocol < kSnapshotPickles.size(); ++protocol) {
    CAPTURE(protocol);
    const Trace trace = parse_trace("x.pickle", kSnapshotPickles[protocol]);
    CHECK(rows_of(trace) == expected);
    REQUIRE(trace.header.size() == 3);
    CHECK(trace.header[0].second == "PyTorch memory snapshot (pickle)");
  }
  const Trace trace = parse_trace("x.json", kSnapshotJson);
  CHECK(rows_of(trace) == expected);
  REQUIRE(trace.header.size() == 3);
  CHECK(trace.header[0] ==
        std::pair<std::string, std::string>("format", "PyTorch memory snapshot (JSON)"));
  CHECK(trace.header[1] ==
        std::pair<std::string, std::string>("allocator_settings", "max_split_size_mb:64"));
  CHECK(trace.header[2] ==
        std::pair<std::string, std::string>("skipped_actions", "\"annotate\" 1"));
}

TEST_CASE("the address of a freed block names a new block when it is allocated again") {
  CHECK(rows(snapshot(event("alloc", 64, 8) + "," + event("free_requested", 64, 8) + "," +
                      event("free_completed", 64, 8) + "," + event("alloc", 64, 9))) ==
        "alloc,1,8,0,0,0\nfree_requested,1,8,0,0,0\nfree_completed,1,8,0,0,0\nalloc,2,9,0,0,0\n");
}

TEST_CASE("a free that was recorded in one step is one row") {
  CHECK(rows(snapshot(event("alloc", 64, 8) + "," + event("free", 64, 8))) ==
        "alloc,1,8,0,0,0\nfree,1,8,0,0,0\n");
  CHECK(rows(snapshot(event("alloc", 64, 8) + "," + event("free_completed", 64, 8))) ==
        "alloc,1,8,0,0,0\nfree,1,8,0,0,0\n");
}

TEST_CASE("a free keeps the stream of its allocation") {
  CHECK(rows(snapshot(event("alloc", 64, 8, R"(, "stream": 5)") + "," +
                      event("free", 64, 8, R"(, "stream": 6)"))) ==
        "alloc,1,8,1,0,0\nfree,1,8,1,0,0\n");
}

TEST_CASE("equal addresses on two devices are independent") {
  CHECK(rows(fmt::format(R"({{"device_traces": [[{0}], [], [{0}]]}})", event("alloc", 64, 8))) ==
        "alloc,1,8,0,0,0\nalloc,2,8,0,2,0\n");
}

TEST_CASE("blocks of the final segments find their addresses by the sizes before them") {
  const std::string segment =
      R"({"address": 1000, "total_size": 700, "blocks": [
            {"size": 100, "state": "inactive"},
            {"size": 200, "state": "active_allocated"},
            {"size": 300, "state": "active_awaiting_free", "requested_size": 299},
            {"size": 100, "state": "active_allocated", "requested_size": 98}]})";
  CHECK(rows(snapshot(event("alloc", 1600, 98), segment)) ==
        "init_alloc,2,200,0,0,0\ninit_alloc,3,299,0,0,0\ninit_segment,1,700,0,0,0\n"
        "reserved_total,-1,700,0,0,0\nalloc,1,98,0,0,0\n");
}

TEST_CASE("segments from before the recording are initial, except expandable ones") {
  const auto segment = [](int address, bool is_expandable) {
    return fmt::format(R"({{"address": {}, "total_size": 700, "is_expandable": {}, "blocks": []}})",
                       address, is_expandable);
  };
  CHECK(rows(snapshot(event("alloc", 64, 8), segment(1000, false) + "," + segment(2000, true))) ==
        "init_segment,1,700,0,0,0\nreserved_total,-1,1400,0,0,0\nalloc,1,8,0,0,0\n");
}

TEST_CASE("the initial reserved total is omitted if the events contradict the segments") {
  const std::string segment = R"({"address": 1000, "total_size": 700, "blocks": []})";
  CHECK(rows(snapshot(event("segment_alloc", 1000, 800), segment)) ==
        "segment_alloc,1,800,0,0,0\n");
  CHECK(rows(snapshot(event("segment_alloc", 1000, 800))) == "segment_alloc,1,800,0,0,0\n");
}

TEST_CASE("a snapshot without events is refused, and the error explains how to record them") {
  CHECK(refusal(snapshot("")) ==
        "x.json: no recorded events; accepted: a snapshot taken while "
        "torch.cuda.memory._record_memory_history() was on");
}

TEST_CASE("data that is no snapshot is refused, and the error describes it") {
  CHECK(refusal("[]") == "x.json: a list instead of a memory snapshot" + std::string(kAccepted));
  CHECK(refusal("{}") == "x.json: the snapshot: \"device_traces\" is missing instead of a list" +
                             std::string(kAccepted));
  CHECK(contains(refusal(R"({"device_traces": 5})"),
                 "\"device_traces\" is an integer instead of a list"));
  CHECK(contains(refusal(R"({"device_traces": [{}]})"),
                 "device_traces[0] is a dictionary instead of a list"));
  CHECK(contains(refusal(R"({"device_traces": [[], [5]]})"),
                 "device_traces[1][0] is an integer instead of a dictionary"));
  CHECK(contains(message_of<InvalidArgument>([] { return parse_trace("x", "\x80\x02N."); }),
                 "x: nothing instead of a memory snapshot"));
}

TEST_CASE("a missing or invalid field is refused with its position") {
  CHECK(refusal(snapshot(event("alloc", 1, 8) + R"(,{"action": "alloc", "addr": 5})")) ==
        "x.json: device_traces[0][1]: \"size\" is missing instead of an integer" +
            std::string(kAccepted));
  CHECK(contains(refusal(snapshot(R"({"action": 5})")),
                 "\"action\" is an integer instead of a text"));
  CHECK(contains(refusal(snapshot("{}")), "\"action\" is missing"));
  CHECK(contains(refusal(snapshot(R"({"action": "alloc", "size": 5})")), "\"addr\" is missing"));
  CHECK(contains(refusal(snapshot(event("alloc", 1, -8))), "\"size\" is -8, below 0"));
  CHECK(contains(refusal(snapshot(event("alloc", 1, 8, R"(, "stream": "a")"))),
                 "\"stream\" is a text instead of an integer"));
  CHECK(contains(refusal(snapshot(event("alloc", 1, 8, R"(, "time_us": -1)"))),
                 "\"time_us\" is -1, below 0"));
  CHECK(
      contains(refusal(snapshot(R"({"action": "alloc", "addr": 18446744073709551615, "size": 1})")),
               "\"addr\" is an integer of more than 64 bits"));
  const std::string alloc = event("alloc", 1, 8);
  CHECK(contains(refusal(snapshot(alloc, "5")), "segments[0] is an integer instead of a dict"));
  CHECK(contains(refusal(snapshot(alloc, R"({"address": 1, "total_size": 5})")),
                 "segments[0]: \"blocks\" is missing"));
  CHECK(contains(refusal(snapshot(alloc, R"({"address": 1, "total_size": 5, "blocks": [
                            {"size": 5, "state": "inactive"}, {"state": "inactive"}]})")),
                 "segments[0].blocks[1]: \"size\" is missing"));
  CHECK(contains(refusal(snapshot(alloc, R"({"device": -1, "address": 1, "total_size": 5})")),
                 "segments[0]: \"device\" is -1, no ordinal from 0 to 1024"));
}

TEST_CASE("contradictory events are refused with both positions") {
  const std::string alloc = event("alloc", 64, 8);
  CHECK(refusal(snapshot(alloc + "," + alloc)) ==
        "x.json: device_traces[0][1]: address 0x40 is allocated, but is so since "
        "device_traces[0][0]; accepted: every action since the recording began, in order");
  CHECK(contains(refusal(snapshot(alloc + "," + event("free_requested", 64, 9))),
                 "device_traces[0][1]: address 0x40 is freed with 9 bytes, but has 8 since "
                 "device_traces[0][0]"));
  CHECK(contains(
      refusal(snapshot(event("free_requested", 64, 8) + "," + event("free_completed", 64, 9))),
      "is freed with 9 bytes, but has 8 since before the recording"));
  CHECK(contains(refusal(snapshot(alloc + "," + event("free_requested", 64, 8) + "," +
                                  event("free_requested", 64, 8))),
                 "is freed, but its free was requested in device_traces[0][1]"));
  const std::string huge =
      R"({"action": "alloc", "addr": %, "size": 9223372036854775807, "stream": 0})";
  std::string three;
  for (const char address : {'1', '2', '3'}) {
    std::string one = huge;
    one[one.find('%')] = address;
    three += three.empty() ? one : "," + one;
  }
  CHECK(contains(refusal(snapshot(three)), "less than 2^64 bytes live at once"));
}

TEST_CASE("a shared list does not make a small file slow") {
  // device_traces holds one list of events a thousand times.
  std::string pickle =
      "\x80\x04}(\x8c\x0d"
      "device_traces](](";
  for (int i = 0; i < 1000; ++i)
    pickle +=
        "}(\x8c\x06"
        "action\x8c\x08snapshotu";
  pickle += "e\x94";
  for (int i = 0; i < 999; ++i) pickle += std::string("h\0", 2);
  pickle += "eu.";
  CHECK(contains(message_of<InvalidArgument>([&] { return parse_trace("x", pickle); }),
                 "lists or dictionaries that stand in several places"));
}

}  // namespace snapshot_trace_test
