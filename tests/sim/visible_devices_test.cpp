// SPDX-License-Identifier: Apache-2.0
// What the whole list means is in tests/device/visible_device_cases.hpp.
#include "sim/device/visible_devices.hpp"

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace visible_devices_test {

using berth::sim::visible_devices;
using Visible = std::vector<int>;

namespace {

// The first two share a prefix; the others do not.
const std::vector<std::string> kUuids = {
    "GPU-11111111-0000-4000-8000-000000000000", "GPU-11112222-0000-4000-8000-000000000000",
    "GPU-33333333-0000-4000-8000-000000000000", "GPU-44444444-0000-4000-8000-000000000000"};

}  // namespace

TEST_CASE("without the variable every device is visible") {
  CHECK(visible_devices(std::nullopt, kUuids) == Visible{0, 1, 2, 3});
}

TEST_CASE("an ambiguous UUID prefix names no device") {
  CHECK(visible_devices("GPU-1", kUuids) == Visible{});
  CHECK(visible_devices("GPU-1111", kUuids) == Visible{});
  CHECK(visible_devices("GPU-11112", kUuids) == Visible{1});
  CHECK(visible_devices("GPU-3,GPU-1,GPU-4", kUuids) == Visible{2});
}

TEST_CASE("the only device is named by the shortest UUID prefix") {
  CHECK(visible_devices("GPU-", {kUuids[0]}) == Visible{0});
}

}  // namespace visible_devices_test
