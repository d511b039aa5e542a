// SPDX-License-Identifier: Apache-2.0
// Real recordings: berth's own, and those of others where they lie beside the source folder.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>

#include <doctest/doctest.h>

#include "berth/trace.hpp"

#include "stats/source_root.hpp"

namespace recorded_traces_test {

using namespace berth;
using namespace berth::test;

namespace {

/// What replaying would find: the trace is read, and says something.
void check_is_replayable(const std::string& path) {
  CAPTURE(path);
  const Trace trace = read_trace(path);
  CHECK(trace.name == path);
  CHECK_FALSE(trace.header.empty());
  std::size_t allocations = 0;
  std::unordered_map<std::int64_t, std::uint64_t> live;
  for (const TraceEvent& event : trace.events) {
    if (event.op == TraceOp::init_alloc || event.op == TraceOp::alloc) {
      CHECK(event.bytes > 0);
      CHECK(live.emplace(event.id, event.bytes).second);
      ++allocations;
    } else if (event.op == TraceOp::free || event.op == TraceOp::free_completed) {
      CHECK(live.erase(event.id) == 1);
    }
  }
  CHECK(allocations > 100);
}

}  // namespace

TEST_CASE("every trace of the benchmarks is read") {
  const auto files = files_in(source_root() / "bench" / "traces", ".csv.gz");
  CHECK_FALSE(files.empty());
  for (const std::string& path : files) check_is_replayable(path);
}

TEST_CASE("every trace that others recorded is read") {
  const auto folder = source_root().parent_path() / "shared" / "traces";
  const auto files = files_in(folder, ".csv");
  if (files.empty()) MESSAGE("skipped: no traces in ", folder.string());
  for (const std::string& path : files) check_is_replayable(path);
}

}  // namespace recorded_traces_test
