// SPDX-License-Identifier: Apache-2.0
#include "device/device_order.hpp"

#include <doctest/doctest.h>

namespace device_order_test {

using namespace berth;

namespace {

using Devices = std::vector<std::size_t>;

Devices order_of_five(std::optional<std::string> visible, Devices shown,
                      std::optional<std::string> order = std::nullopt) {
  return cuda_order({std::move(order), std::move(visible), 5, std::move(shown)});
}

}  // namespace

TEST_CASE("PCI_BUS_ID is the order of PCI addresses, independently of the driver") {
  CHECK(order_of_five(std::nullopt, {4, 3, 2, 1, 0}, "PCI_BUS_ID") == Devices{0, 1, 2, 3, 4});
}

TEST_CASE("if all devices are visible, CUDA's order is that of the driver") {
  CHECK(order_of_five(std::nullopt, {4, 0, 2, 1, 3}) == Devices{4, 0, 2, 1, 3});
  CHECK(order_of_five(std::nullopt, {4, 0, 2, 1, 3}, "FASTEST_FIRST") == Devices{4, 0, 2, 1, 3});
  CHECK(order_of_five(std::nullopt, {4, 0, 2, 1, 3}, "anything") == Devices{4, 0, 2, 1, 3});
}

TEST_CASE("a device made visible by an ordinal has that position, and the others fill the rest") {
  CHECK(order_of_five("0", {3}) == Devices{3, 0, 1, 2, 4});
  CHECK(order_of_five("4,1", {0, 3}) == Devices{1, 3, 2, 4, 0});
  CHECK(order_of_five("0,1,x,2", {4, 2}) == Devices{4, 2, 0, 1, 3});
}

TEST_CASE("a device with several visible instances has one position") {
  CHECK(order_of_five(std::nullopt, {4, 2, 2, 2, 0, 1, 3}) == Devices{4, 2, 0, 1, 3});
  CHECK(order_of_five("3,0", {2, 2, 4}) == Devices{4, 0, 1, 2, 3});
}

TEST_CASE("an unknown order is assumed to be that of PCI addresses") {
  CHECK(order_of_five("", {}) == Devices{0, 1, 2, 3, 4});
  CHECK(order_of_five("GPU-x,GPU-y", {3, 1}) == Devices{0, 1, 2, 3, 4});
  CHECK(order_of_five("MIG-x", {3}) == Devices{0, 1, 2, 3, 4});
  CHECK(order_of_five("0,1,2", {3}) == Devices{0, 1, 2, 3, 4});
  CHECK(order_of_five(std::nullopt, {0, 1, 3, 4}) == Devices{0, 1, 2, 3, 4});
  CHECK(cuda_order({}).empty());
}

}  // namespace device_order_test
