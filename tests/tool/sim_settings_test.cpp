// SPDX-License-Identifier: Apache-2.0
#include "tool/sim_settings.hpp"

#include <doctest/doctest.h>

#include "tool/exit_code.hpp"

namespace sim_settings_test {

using namespace berth::tool;

TEST_CASE("an option replaces only its setting of the environment") {
  SimSettings settings("devices=2, memory = 1GiB,name=a=b");
  settings.set("memory", "4GiB", "--memory");
  CHECK(settings.text() == "devices=2,name=a=b,memory=4GiB");
  settings.set_pair("name=c=d", "--set");
  CHECK(settings.text() == "devices=2,memory=4GiB,name=c=d");
}

TEST_CASE("a default does not replace an existing setting") {
  SimSettings settings("devices=2");
  settings.set_default("devices", "8");
  settings.set_default("seed", "8");
  CHECK(settings.text() == "devices=2,seed=8");
}

TEST_CASE("malformed pairs are kept for the simulator to reject") {
  CHECK(SimSettings("").text().empty());
  CHECK(SimSettings("  ").text().empty());
  CHECK(SimSettings("devices=1,,x").text() == "devices=1,,x");
  CHECK(SimSettings("devices=1,").text() == "devices=1,");
}

TEST_CASE("a value with a comma, and a setting without a value, are refused") {
  SimSettings settings("");
  CHECK_THROWS_AS(settings.set("name", "a,b", "--name"), UsageError);
  CHECK_THROWS_AS(settings.set_pair("devices", "--set"), UsageError);
  CHECK_THROWS_AS(settings.set_pair("=1", "--set"), UsageError);
  CHECK_THROWS_WITH_AS(settings.set_pair("devices=2,seed=4", "--set"),
                       "--set 'devices=2,seed=4': accepted: a value without a comma", UsageError);
  CHECK(settings.text().empty());
}

TEST_CASE("the kinds that are not checked are those that are not named") {
  const SimSettings settings("devices=2, checks=race/leak");
  CHECK(settings.value("checks") == "race/leak");
  CHECK(settings.value("seed").empty());
  CHECK(unchecked_kinds(settings.value("checks")) == std::vector<std::string>{"aliasing", "fault"});
  CHECK(unchecked_kinds("").empty());
  CHECK(unchecked_kinds("on").empty());
  CHECK(unchecked_kinds("off").size() == 4);
}

}  // namespace sim_settings_test
