// SPDX-License-Identifier: Apache-2.0
// The pure function behind visibility_problem(), on machines of any size. What the registry shows
// for the same variable is visible_devices_test.cpp's.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "device/visible_devices.hpp"
#include "support/errors.hpp"
#include "support/visible_device_cases.hpp"

using namespace berth;
using namespace berth::test;

namespace {

using Indices = std::vector<std::size_t>;

const std::vector<std::string> kFour = {
    "GPU-aaaa1111-0000-0000-0000-000000000000", "GPU-aaaa2222-0000-0000-0000-000000000000",
    "GPU-bbbb3333-0000-0000-0000-000000000000", "GPU-cccc4444-0000-0000-0000-000000000000"};

std::vector<std::string> machine(int devices) {
  std::vector<std::string> uuids;
  for (int index = 0; index < devices; ++index)
    uuids.push_back("GPU-" + std::string(1, char('a' + index % 26)) + std::to_string(index) +
                    "-0000");
  return uuids;
}

struct Case {
  std::string_view text;
  Indices devices;
  /// The entry that the problem quotes; nullopt where nothing is wrong.
  std::optional<std::string_view> wrong = std::nullopt;
};

void check(const Case& expected, const std::vector<std::string>& uuids) {
  CAPTURE(expected.text);
  const VisibleDevices visible = resolve_visible_devices(std::string(expected.text), uuids);
  CHECK(visible.devices == expected.devices);
  CHECK(visible.problem.empty() == !expected.wrong.has_value());
  if (!expected.wrong) return;
  CAPTURE(visible.problem);
  CHECK(contains(visible.problem, "CUDA_VISIBLE_DEVICES=\"" + std::string(expected.text) + "\""));
  CHECK(contains(visible.problem, ": \"" + std::string(*expected.wrong) + "\" "));
  CHECK(contains(visible.problem,
                 "accepted: ordinals from 0 to " + std::to_string(uuids.size() - 1)));
}

}  // namespace

TEST_CASE(
    "the table of cases on four devices holds, and problems are told exactly where something is "
    "wrong") {
  for (const VisibleDeviceCase& expected : visible_device_cases()) {
    std::optional<std::string> value;
    if (expected.value) value = with_uuids(*expected.value, kFour);
    CAPTURE(value.value_or("(not set)"));
    const VisibleDevices visible = resolve_visible_devices(value, kFour);
    CHECK(visible.devices == Indices(expected.visible.begin(), expected.visible.end()));
    CHECK(visible.problem.empty() == !expected.malformed);
    CHECK_FALSE(contains(visible.problem, "\n"));
  }
}

TEST_CASE("not set shows every device, on a machine of any size") {
  for (const int devices : {0, 1, 4, 64}) {
    const VisibleDevices visible = resolve_visible_devices(std::nullopt, machine(devices));
    REQUIRE(visible.devices.size() == std::size_t(devices));
    for (std::size_t index = 0; index < visible.devices.size(); ++index)
      CHECK(visible.devices[index] == index);
    CHECK(visible.problem.empty());
  }
}

TEST_CASE("the problem quotes the entry that ends the list") {
  const std::vector<Case> cases = {
      {"0,9,1", {0}, "9"},
      {"4", {}, "4"},
      {"3,4", {3}, "4"},
      {"0,1,-2", {0, 1}, "-2"},
      {"-2147483649", {}, "-2147483649"},
      {"-99999999999999999999", {}, "-99999999999999999999"},
      {"99999999999999999999", {}, "99999999999999999999"},
      {"2,two", {2}, "two"},
      {"2, two", {2}, " two"},
      {"1,,2", {1}, ""},
      {",", {}, ""},
      {"0,GPU-dddd", {0}, "GPU-dddd"},
      {"GPU-aaaa", {}, "GPU-aaaa"},
      {"GPU-", {}, "GPU-"},
      {"GPU-bbbb,GPU-aaaa", {2}, "GPU-aaaa"},
      {"GPU-BBBB", {}, "GPU-BBBB"},
      {"3,2,3,1", {}, "3"},
      {"3,+3", {}, "+3"},
      {"3, 3", {}, " 3"},
      {"GPU-bbbb,GPU-bbbb3333", {}, "GPU-bbbb3333"},
  };
  for (const Case& expected : cases) check(expected, kFour);
}

TEST_CASE("well-formed entries are resolved without a problem, odd spellings included") {
  const std::vector<Case> cases = {
      {"3", {3}},
      {"+3", {3}},
      {"003", {3}},
      {"\t2", {2}},
      {"\n1", {1}},
      {"2\n", {2}},
      {"2 ,1 ", {2, 1}},
      {"0b1", {0}},
      {"1e3", {1}},
      {"2MIG-0", {2}},
      {"0,", {0}},
      {"-1", {}},
      {" -1", {}},
      {"-1x", {}},
      {"-01", {}},
      {"1,-1,1", {1}},
      {"GPU-aaaa1", {0}},
      {"GPU-aaaa2222-0000-0000-0000-000000000000", {1}},
      {"GPU-c,GPU-b", {3, 2}},
      {"MIG-GPU-aaaa1111/0/0", {}},
      {"1,MIG-x,2", {1}},
      {"GPU-b,MIG-x,GPU-b", {2}},
  };
  for (const Case& expected : cases) check(expected, kFour);
}

TEST_CASE("ordinals of two digits, and the last device, count on a machine of many") {
  const std::vector<std::string> many = machine(16);
  check({"10,15,1", {10, 15, 1}}, many);
  check({"15,16", {15}, "16"}, many);
  check({"1,10,11,1", {}, "1"}, many);
}

TEST_CASE("the shortest prefix names the only device there is") {
  const std::vector<std::string> one = {"GPU-0"};
  check({"GPU-", {0}}, one);
  check({"0", {0}}, one);
  check({"1", {}, "1"}, one);
  check({"0,0", {}, "0"}, one);
}

TEST_CASE("a machine without devices has none to show, and says so of each entry") {
  const VisibleDevices visible = resolve_visible_devices("0", {});
  CHECK(visible.devices.empty());
  CHECK(contains(visible.problem, "\"0\""));
  CHECK(resolve_visible_devices("", {}).problem.empty());
  CHECK(resolve_visible_devices("-1", {}).problem.empty());
  CHECK_FALSE(resolve_visible_devices("GPU-", {}).problem.empty());
}
