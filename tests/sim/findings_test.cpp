// SPDX-License-Identifier: Apache-2.0
// The file of findings of a program that runs without a test, and their call sites.
#include "sim/check/findings.hpp"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "sim/check/call_stacks.hpp"
#include "support/environment.hpp"

namespace findings_test {

using namespace berth::sim;
using berth::test::ScopedEnvironment;
using Json = nlohmann::json;

namespace {

/// Findings of a program alone, with their file.
class Alone {
 public:
  explicit Alone(const char* config = "")
      : config_(Config::parse(config)),
        variable_("BERTH_SIM_FINDINGS", path()),
        log_("off", [] { return std::uint64_t{0}; }),
        findings(true, config_, log_) {}
  ~Alone() { std::remove(path_.c_str()); }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

  [[nodiscard]] std::vector<Json> records() const {
    std::ifstream file(path_);
    std::vector<Json> all;
    for (std::string line; std::getline(file, line);)
      if (!line.empty()) all.push_back(Json::parse(line));
    return all;
  }

 private:
  const char* path() {
    close(mkstemp(path_.data()));
    return path_.c_str();
  }

  std::string path_ = "/tmp/findings-test-XXXXXX";
  Config config_;
  ScopedEnvironment variable_;
  EventLog log_;

 public:
  Findings findings;
};

Finding race(const CallStack* first, const CallStack* second) {
  return {"race: b, while a", {{"a", "writes", 8, first}, {"b", "reads", 4, second}}};
}

__attribute__((noinline)) const CallStack* take(CallStacks& stacks) {
  const CallStack* const taken = stacks.here();
  asm volatile("");  // no tail call
  return taken;
}

}  // namespace

TEST_CASE("each finding is in the file at once, with its uses") {
  Alone alone("seed=7");
  CHECK(alone.records().at(0).at("record") == "process");
  CHECK(alone.records().at(0).at("pid") == getpid());
  alone.findings.add(race(nullptr, nullptr));
  const Json found = alone.records().at(1);
  CHECK(found.at("record") == "finding");
  CHECK(found.at("kind") == "race");
  CHECK(found.at("text") == "race: b, while a");
  CHECK(found.at("seed") == 7);
  CHECK(found.at("uses").at(0) ==
        Json{{"call", "a"}, {"does", "writes"}, {"bytes", 8}, {"frames", Json::array()}});
  CHECK(found.at("uses").at(1).at("call") == "b");
}

TEST_CASE("disabled checks report no findings") {
  Alone alone("checks=leak");
  alone.findings.add(race(nullptr, nullptr));
  CHECK(alone.findings.empty());
  alone.findings.add({"leak: 1 event"});
  alone.findings.add({"stall: a"});
  CHECK(alone.records().size() == 3);
}

TEST_CASE("the same two calls in a loop are one finding, whichever came first") {
  Alone alone;
  const CallStack one;
  const CallStack other;
  alone.findings.add(race(&one, &other));
  Finding again = race(&one, &other);
  std::swap(again.uses[0], again.uses[1]);
  again.text = "race: the other way round";
  alone.findings.add(again);
  CHECK(alone.findings.take().size() == 1);
  alone.findings.add(race(&one, &one));
  CHECK(alone.findings.take().size() == 1);
}

TEST_CASE("without call stacks the line tells mistakes apart, except addresses and call numbers") {
  Alone alone;
  for (int i = 100; i < 300; ++i) {
    Finding again = race(nullptr, nullptr);
    again.text += " (call " + std::to_string(i) + ") at 0x" + std::to_string(i);
    alone.findings.add(again);
  }
  CHECK(alone.records().size() == 2);
  Finding other = race(nullptr, nullptr);
  other.text += " (call 100) at 0x100 (weights)";
  alone.findings.add(other);
  CHECK(alone.records().size() == 3);
}

TEST_CASE("in Python the frames of Python alone tell mistakes apart") {
  Alone alone;
  const PythonPlace line{"f.py", 1, "f", true};
  const PythonPlace next{"f.py", 2, "f", true};
  char code = 0;
  CallStack one{{&code}, {&line}};
  CallStack same{{&one}, {&line}};
  CallStack other{{&code}, {&next}};
  alone.findings.add(race(&one, &one));
  Finding again = race(&same, &one);
  again.text += " again";
  alone.findings.add(again);
  CHECK(alone.records().size() == 2);
  alone.findings.add(race(&other, &one));
  CHECK(alone.findings.take().size() == 1);
}

TEST_CASE("a finding without uses is one mistake by its line, except addresses and call numbers") {
  Alone alone;
  alone.findings.add({"stall: a at 0x12 (call 3)"});
  alone.findings.add({"stall: a at 0xab (call 4)"});
  alone.findings.add({"leak: 3 events"});
  alone.findings.add({"leak: 4 events"});
  const std::vector<Json> records = alone.records();
  REQUIRE(records.size() == 4);
  CHECK(records[1].at("text") == "stall: a at 0x12 (call 3)");
  CHECK(records[1].at("mistake") == "stall: a at 0x (call )");
}

TEST_CASE("findings that are not kept are counted at each power of two") {
  Alone alone;
  for (int i = 0; i < 103; ++i) alone.findings.add({"leak: " + std::to_string(i)});
  CHECK(alone.records().size() == 103);
  CHECK(alone.records().back().at("record") == "more");
  CHECK(alone.records().back().at("count") == 2);
  alone.findings.add({"leak: 7"});  // a kept one once more
  alone.findings.add({"leak: 103"});
  CHECK(alone.records().back().at("count") == 4);
  CHECK(alone.findings.take().back() == "and 4 more");
}

TEST_CASE("a query for the version of the driver is noted once") {
  const Alone alone;
  note_version_query(12040);
  note_version_query(12040);
  CHECK(alone.records().size() == 2);
  CHECK(alone.records().back().at("version") == 12040);
}

TEST_CASE("a call for a private table is reported once for each module") {
  Alone alone;
  alone.findings.note_private_table("a");
  alone.findings.note_private_table("b");
  alone.findings.note_private_table("a");
  CHECK(alone.records().size() == 3);
  CHECK(alone.records()[1].at("module") == "a");
  CHECK(alone.records()[2].at("module") == "b");
  CHECK(alone.records().back().at("record") == "private_table");
}

TEST_CASE("equal call stacks are recognized, and other places have other stacks") {
  CallStacks stacks(true);
  std::vector<const CallStack*> taken;
  volatile int times = 3;  // of one instruction
  for (int i = 0; i < times; ++i) taken.push_back(take(stacks));
  CHECK(taken[0] != nullptr);
  CHECK(taken[1] == taken[2]);
  CHECK(taken[0] != take(stacks));
  CHECK(describe(*taken[0]).find("+0x") != std::string::npos);
  CallStacks off(false);
  CHECK(off.here() == nullptr);
}

}  // namespace findings_test
