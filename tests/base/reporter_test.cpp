// SPDX-License-Identifier: Apache-2.0
// Reports reach the sink. Neither a lack of memory nor exceptions of the sink get any further.
#include "base/reporter.hpp"

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace reporter_test {

using namespace berth;

TEST_CASE("a message that the host has no memory for is reported as lost") {
  std::vector<Report> seen;
  const Reporter reporter([&](const Report& report) { seen.push_back(report); });
  reporter.report(Severity::warning, [] { return std::string("careful"); });
  reporter.report(Severity::warning, []() -> std::string { throw std::bad_alloc(); });
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].severity == Severity::warning);
  CHECK(seen[0].message == "careful");
  CHECK(seen[1].severity == Severity::error);
  CHECK(seen[1].message == "a message is lost, because the host has no memory for it");
}

TEST_CASE("exceptions of the sink are ignored, and without a sink no message is made") {
  int calls = 0;
  const Reporter reporter([&](const Report&) {
    ++calls;
    throw std::runtime_error("the sink");
  });
  reporter.report(Severity::error, [] { return std::string("once"); });
  CHECK(calls == 1);
  const Reporter silent(nullptr);
  silent.report(Severity::error, [&] {
    ++calls;
    return std::string();
  });
  CHECK(calls == 1);
}

}  // namespace reporter_test
