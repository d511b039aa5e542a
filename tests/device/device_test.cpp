// SPDX-License-Identifier: Apache-2.0
#include "berth/device.hpp"

#include <climits>
#include <string>
#include <string_view>
#include <unordered_set>

#include <doctest/doctest.h>

#include "support/errors.hpp"

using namespace berth;
using namespace berth::test;
using namespace std::string_view_literals;

static_assert(Device().kind() == DeviceKind::cpu);
static_assert(Device::cpu() == Device());
static_assert(!Device::cpu().is_cuda() && Device::cpu().has_ordinal());
static_assert(Device::cuda().is_cuda() && !Device::cuda().has_ordinal());
static_assert(Device::cpu().ordinal() == 0 && Device::cuda().ordinal() == -1);

TEST_CASE("a device text is cpu, cuda, or cuda and a decimal ordinal up to 2^31 - 1") {
  CHECK(Device::parse("cpu") == Device::cpu());
  CHECK(Device::parse("cuda") == Device::cuda());
  for (const int ordinal :
       {0, 1, 9, 10, 127, 128, 129, 255, 256, 300, 65535, 65536, 2147483646, INT_MAX}) {
    const std::string text = "cuda:" + std::to_string(ordinal);
    CAPTURE(text);
    const Device device = Device::parse(text);
    CHECK(device.is_cuda());
    CHECK(device.has_ordinal());
    CHECK(device.ordinal() == ordinal);
    CHECK(device == Device::cuda(ordinal));
    CHECK(device.to_string() == text);
  }
}

TEST_CASE("any other text is refused by an error that quotes it and says what is accepted") {
  for (const std::string_view text : {"CPU"sv,
                                      "Cuda"sv,
                                      "CUDA:0"sv,
                                      "cuda:"sv,
                                      "cuda:-1"sv,
                                      "cuda:+1"sv,
                                      "cuda:01"sv,
                                      "cuda:00"sv,
                                      "cuda: 1"sv,
                                      "cuda :1"sv,
                                      " cuda:1"sv,
                                      "cuda:1 "sv,
                                      "cuda:1,2"sv,
                                      "cuda:0x1"sv,
                                      "cuda:1.0"sv,
                                      "cuda:1e0"sv,
                                      "cuda:one"sv,
                                      "cuda:1a"sv,
                                      "cuda::1"sv,
                                      "cuda:1:2"sv,
                                      "cuda1"sv,
                                      "cuda;1"sv,
                                      "cuda-1"sv,
                                      "gpu"sv,
                                      "gpu:0"sv,
                                      "cud"sv,
                                      "cp"sv,
                                      "cpu:"sv,
                                      "cpu:0"sv,
                                      "cpu:1"sv,
                                      "cpucuda"sv,
                                      "1"sv,
                                      "0"sv,
                                      ":0"sv,
                                      ":"sv,
                                      " "sv,
                                      "cuda:2147483648"sv,
                                      "cuda:2147483903"sv,
                                      "cuda:4294967295"sv,
                                      "cuda:4294967296"sv,
                                      "cuda:9223372036854775808"sv,
                                      "cuda:18446744073709551615"sv,
                                      "cuda:18446744073709551616"sv,
                                      "cuda:99999999999999999999"sv,
                                      "cuda:\u0661"sv,
                                      "cuda:\u00b2"sv}) {
    CAPTURE(text);
    const std::string thrown = message_of<InvalidArgument>([&] { return Device::parse(text); });
    CHECK(contains(thrown, text));
    CHECK(contains(thrown, "cpu"));
    CHECK(contains(thrown, "cuda:N"));
    CHECK(message_of(Device::try_parse(text), Errc::invalid_argument) == thrown);
  }
}

TEST_CASE(
    "empty text, a line break and a zero byte are refused, and the message is still one line") {
  for (const std::string_view text : {""sv, "\n"sv, "cuda\n"sv, "cuda:1\n"sv, "cuda:1\r\n"sv,
                                      "\tcpu"sv, "cpu\0"sv, "cuda:1\0"sv, "cuda:\0001"sv}) {
    CAPTURE(text);
    const std::string thrown = message_of<InvalidArgument>([&] { return Device::parse(text); });
    CHECK(contains(thrown, "cuda:N"));
    CHECK(message_of(Device::try_parse(text), Errc::invalid_argument) == thrown);
  }
}

TEST_CASE("try_parse gives what parse gives, and its error rethrows as InvalidArgument") {
  CHECK(Device::try_parse("cuda:3").value() == Device::cuda(3));
  Result<Device> bad = Device::try_parse("cuda:x");
  CHECK_FALSE(bad);
  CHECK_THROWS_AS(bad.value(), InvalidArgument);
}

TEST_CASE("to_string gives the text that parse accepts") {
  CHECK(Device::cpu().to_string() == "cpu");
  CHECK(Device::cuda().to_string() == "cuda");
  CHECK(Device::cuda(0).to_string() == "cuda:0");
  for (const Device device :
       {Device::cpu(), Device::cuda(), Device::cuda(0), Device::cuda(INT_MAX)})
    CHECK(Device::parse(device.to_string()) == device);
}

TEST_CASE("an ordinal below zero is refused in code too, also the one that stands for current") {
  for (const int ordinal : {-1, -2, INT_MIN}) {
    CAPTURE(ordinal);
    const std::string thrown = message_of<InvalidArgument>([&] { return Device::cuda(ordinal); });
    CHECK(contains(thrown, std::to_string(ordinal)));
  }
}

TEST_CASE("cuda and cuda:0 are different devices until one resolves them, and hash apart") {
  CHECK(Device::cuda() != Device::cuda(0));
  CHECK(Device::cpu() != Device::cuda(0));
  CHECK(Device::cuda(1) < Device::cuda(2));
  CHECK(Device::cpu() < Device::cuda());
  std::unordered_set<Device> devices = {Device::cpu(), Device::cuda()};
  for (int ordinal = 0; ordinal <= 300; ++ordinal) devices.insert(Device::cuda(ordinal));
  CHECK(devices.size() == 303);
  CHECK(devices.contains(Device::parse("cuda:256")));
  CHECK_FALSE(devices.contains(Device::cuda(301)));
}
