// SPDX-License-Identifier: Apache-2.0
// Every recorded trace that is at hand is served in full, leaks nothing, and passes every check
// after every operation. BERTH_TEST_TRACES names folders, separated by colons.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/trace.hpp"

#include "support/thinned.hpp"
#include "tool/replay.hpp"

using namespace berth;
using namespace berth::tool;

namespace {

namespace fs = std::filesystem;

std::vector<std::string> recorded_traces() {
  std::vector<std::string> traces;
  const char* folders = std::getenv("BERTH_TEST_TRACES");
  std::istringstream list(folders == nullptr ? "" : folders);
  for (std::string folder; std::getline(list, folder, ':');) {
    if (!fs::is_directory(folder)) {
      MESSAGE("skipped: there is no folder " << folder);
      continue;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string path = entry.path().string();
      if (path.ends_with(".csv") || path.ends_with(".csv.gz")) traces.push_back(path);
    }
  }
  std::ranges::sort(traces);
  if (traces.empty()) MESSAGE("skipped: BERTH_TEST_TRACES names no folder with traces");
  return traces;
}

}  // namespace

TEST_CASE("every recorded trace succeeds, and every check holds after each operation") {
  ReplayOptions options;
  options.validate = true;
  test::Thinned thinned(5);
  for (const std::string& path : recorded_traces()) {
    if (thinned.skips()) continue;
    CAPTURE(path);
    for (const ReplayPlan& plan : plan_replay(read_trace(path))) {
      Runtime runtime;
      const ReplayResult result = replay(runtime, Device::cuda(0), plan, options);
      CHECK(result.out_of_memory == 0);
      CHECK(result.bytes_live_peak == plan.live_peak().bytes);
      CHECK(result.bytes_reserved_peak >= result.bytes_live_peak);
    }
  }
}
