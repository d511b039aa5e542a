// SPDX-License-Identifier: Apache-2.0
#include "tool/replay_report.hpp"

#include <doctest/doctest.h>

using namespace berth::tool;

TEST_CASE("a trace is named by its file, without folder and format") {
  CHECK(short_trace_name("/a/b.c/train.csv.gz") == "train");
  CHECK(short_trace_name("snapshot.pickle") == "snapshot");
  CHECK(short_trace_name("v1.2.json") == "v1.2");
  CHECK(short_trace_name(".csv") == ".csv");
}

TEST_CASE("the summary has the median and the worst waste, by name") {
  const auto result = [](const char* trace, std::uint64_t live, std::uint64_t reserved) {
    ReplayResult made;
    made.trace = trace;
    made.bytes_live_peak = live;
    made.bytes_reserved_peak = reserved;
    return made;
  };
  const ReplayResult a = result("a.csv", 100, 110);
  const ReplayResult b = result("b.csv", 100, 150);
  const ReplayResult c = result("c.csv", 100, 120);
  const ReplayResult nothing_live = result("d.csv", 0, 0);
  CHECK(summarize({a, b, c}) == "waste: median 20.0%, worst 50.0% (b)\n");
  CHECK(summarize({a, c, nothing_live}) == "waste: median 15.0%, worst 20.0% (c)\n");
  CHECK(summarize({nothing_live}).empty());
}

TEST_CASE("the waste of a tiny program is shown as a bound") {
  ReplayResult tiny;
  tiny.trace = "tiny";
  tiny.bytes_live_peak = 1890;
  tiny.bytes_reserved_peak = 2'097'152;
  CHECK(summarize({tiny}) == "waste: median >999%, worst >999% (tiny)\n");
}

TEST_CASE("the summary counts traces whose last pass made no driver call") {
  ReplayResult quiet;
  quiet.driver_calls_steady.emplace();
  ReplayResult busy = quiet;
  busy.driver_calls_steady->push_back({"cuMemMap", 3});
  CHECK(summarize({quiet, busy, quiet}) == "last pass: no driver call in 2 of 3\n");
}
