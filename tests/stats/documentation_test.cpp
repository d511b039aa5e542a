// SPDX-License-Identifier: Apache-2.0
// What docs/ promises to be complete about.
#include <string>

#include <doctest/doctest.h>

#include "berth/memory_counters.h"

#include "stats/source_root.hpp"
#include "support/errors.hpp"
#include "trace/trace_op.hpp"

namespace documentation_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("docs/statistics.md explains every counter of the list") {
  const std::string page = content_of(source_root() / "docs" / "statistics.md");
#define BERTH_CHECK_EXPLAINED(name, help) CHECK_MESSAGE(contains(page, "| `" #name "` |"), #name);
  BERTH_MEMORY_GAUGES(BERTH_CHECK_EXPLAINED)
  BERTH_MEMORY_TOTALS(BERTH_CHECK_EXPLAINED)
#undef BERTH_CHECK_EXPLAINED
}

TEST_CASE("docs/traces.md explains every operation of a trace") {
  const std::string page = content_of(source_root() / "docs" / "traces.md");
  std::string words = trace_op_words() + ", ";
  while (!words.empty()) {
    const auto end = words.find(", ");
    CHECK_MESSAGE(contains(page, "| `" + words.substr(0, end) + "` |"), words.substr(0, end));
    words.erase(0, end + 2);
  }
}

}  // namespace documentation_test
