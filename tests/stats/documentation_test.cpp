// SPDX-License-Identifier: Apache-2.0
// What docs/ promises to be complete about.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "berth/memory_counters.h"
#include "berth/statistics.hpp"

#include "stats/source_root.hpp"
#include "stats/statistics_samples.hpp"
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

namespace {

/// The fields of an object and of all within it, in their order; of an array, those of its first
/// element.
std::string fields_of(const nlohmann::ordered_json& json) {
  if (json.is_array()) return json.empty() ? "[]" : "[" + fields_of(json[0]) + "]";
  if (!json.is_object()) return "";
  std::string fields = "{";
  for (const auto& item : json.items()) fields += item.key() + fields_of(item.value()) + " ";
  return fields + "}";
}

}  // namespace

TEST_CASE("docs/statistics.md shows every field of the JSON, in its order") {
  const std::string page = content_of(source_root() / "docs" / "statistics.md");
  const std::string fence = "```json\n";
  const auto start = page.find(fence);
  REQUIRE(start != std::string::npos);
  const auto end = page.find("```", start + fence.size());
  const std::string example = page.substr(start + fence.size(), end - start - fence.size());
  Statistics statistics = sample_statistics();
  statistics.backend_devices.emplace_back();
  const std::string printed = fields_of(nlohmann::ordered_json::parse(to_json(statistics)));
  CHECK(fields_of(nlohmann::ordered_json::parse(example)) == printed);
  CHECK(contains(printed, "blocks[{address"));
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
