// SPDX-License-Identifier: Apache-2.0
#include "berth/same_device.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "support/errors.hpp"

namespace same_device_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_view_literals;

namespace {

constexpr Device kCpu = Device::cpu();
const Device kFirst = Device::cuda(0);
const Device kSecond = Device::cuda(1);

template <class... Hint>
std::string refusal_of(std::string_view operation, const std::vector<DeviceArgument>& arguments,
                       Hint... hint) {
  return message_of<InvalidArgument>([&] {
    require_same_device(operation, arguments, hint...);
    return 0;
  });
}

}  // namespace

// Where all agree nothing is called that the compiler could not call: no driver, no formatting.
static_assert((require_same_device("add", {{"a", kCpu}, {{}, Device::cpu()}}), true));

TEST_CASE("arguments on one device are accepted, as are one argument and none") {
  CHECK_NOTHROW(require_same_device("add", {{"a", kSecond}, {"b", kSecond}, {{}, kSecond}}));
  CHECK_NOTHROW(require_same_device("add", {{"a", kCpu}}));
  CHECK_NOTHROW(require_same_device("add", {}));
  CHECK_NOTHROW(require_same_device("add", std::vector<DeviceArgument>(1000, {"a", kFirst})));
  CHECK_NOTHROW(require_same_device("add", {{"a", kCpu}, {"b", Device::parse("cpu:0")}}));
}

TEST_CASE("of two devices the first argument's is expected, and the other argument is named") {
  CHECK(refusal_of("add", {{"a", kFirst}, {"b", kCpu}}) ==
        R"(add: expected all arguments on cuda:0, where "a" is, but "b" is on cpu; )"
        "move it with a copy to cuda:0");
}

TEST_CASE("the device of most arguments is expected, whatever their positions") {
  CHECK(refusal_of("linear", {{"input", kCpu}, {"weight", kSecond}, {"bias", kSecond}}) ==
        R"(linear: expected all arguments on cuda:1, where "weight" and 1 more are, but )"
        R"("input" is on cpu; move it with a copy to cuda:1)");
}

TEST_CASE("of devices with equally many arguments the first is expected") {
  const std::string message =
      refusal_of("f", {{"a", kSecond}, {"b", kFirst}, {"c", kFirst}, {"d", kSecond}});
  CHECK(contains(message, "expected all arguments on cuda:1, where \"a\" and 1 more are"));
  CHECK(contains(message, "\"b\" is on cuda:0 and \"c\" is on cuda:0; move them "));
}

TEST_CASE("every argument on another device is named, or numbered if it has no name") {
  CHECK(refusal_of("where", {{{}, kCpu}, {"mask", kFirst}, {{}, kFirst}, {{}, kSecond}}) ==
        R"(where: expected all arguments on cuda:0, where "mask" and 1 more are, but argument 1 )"
        "is on cpu and argument 4 is on cuda:1; move them with a copy to cuda:0");
}

TEST_CASE("a mismatch in the last of many arguments is found, and the message stays short") {
  std::vector<DeviceArgument> arguments(1000, {{}, kFirst});
  arguments.back().device = kSecond;
  CHECK(contains(refusal_of("cat", arguments), "but argument 1000 is on cuda:1; move it "));

  for (std::size_t index = 600; index < 1000; ++index) arguments[index].device = kCpu;
  const std::string message = refusal_of("cat", arguments);
  CHECK(contains(message, "argument 608 is on cpu and 392 more are not there either; move them "));
  CHECK_FALSE(contains(message, "argument 609"));
  CHECK(message.size() < 500);
}

TEST_CASE("the hint in the message is configurable") {
  const std::vector<DeviceArgument> arguments = {{"a", kSecond}, {"b", kCpu}};
  const auto ends = [&](std::string_view hint, std::string_view end) {
    return refusal_of("add", arguments, hint).ends_with("\"b\" is on cpu; " + std::string(end));
  };
  CHECK(ends("call .to('{device}')", "call .to('cuda:1')"));
  CHECK(ends("{device}{device}", "cuda:1cuda:1"));
  CHECK(ends("{device", "{device"));
  CHECK(ends("{}{0}{devices}", "{}{0}{devices}"));
  CHECK(ends("", "move it with a copy to cuda:1"));
}

TEST_CASE("cuda and cuda:0 are different until they are resolved") {
  CHECK(contains(refusal_of("add", {{"a", Device::cuda()}, {"b", kFirst}}),
                 "expected all arguments on cuda, where \"a\" is, but \"b\" is on cuda:0"));
}

TEST_CASE("devices of registered types are named like all others") {
  const Device npu = Device::of(DeviceType::register_name("npu"), 3);
  CHECK(contains(refusal_of("add", {{"a", npu}, {"b", Device::cuda(3)}}),
                 "expected all arguments on npu:3, where \"a\" is, but \"b\" is on cuda:3"));
}

TEST_CASE("the message is one line for any text") {
  CHECK(contains(refusal_of("a\nb", {{"x\ny", kCpu}, {"z\0"sv, kFirst}}, "do\r\nthis"),
                 R"(a\x0ab: expected all arguments on cpu, where "x\x0ay" is, but "z\x00" is )"
                 R"(on cuda:0; do\x0d\x0athis)"));
}

}  // namespace same_device_test
