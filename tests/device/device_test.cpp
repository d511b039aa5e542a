// SPDX-License-Identifier: Apache-2.0
#include "berth/device.hpp"

#include <climits>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>

#include <doctest/doctest.h>

#include "support/errors.hpp"

namespace device_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_view_literals;

static_assert(Device().type() == DeviceType::cpu());
static_assert(Device::cpu() == Device() && Device::of(DeviceType::cpu()) == Device::cpu());
static_assert(Device::cpu().is_cpu() && !Device::cpu().is_cuda() && Device::cpu().has_ordinal());
static_assert(Device::cuda().is_cuda() && !Device::cuda().is_cpu());
static_assert(!Device::cuda().has_ordinal());
static_assert(Device::cpu().ordinal() == 0 && Device::cuda().ordinal() == -1);
static_assert(std::is_trivially_copyable_v<Device> && sizeof(Device) == 8);

namespace {

const DeviceType kNpu = DeviceType::register_name("npu");

/// What parse() throws, which try_parse() returns too.
std::string refusal_of(std::string_view text) {
  std::string thrown = message_of<InvalidArgument>([&] { return Device::parse(text); });
  CHECK(message_of(Device::try_parse(text), Errc::invalid_argument) == thrown);
  return thrown;
}

}  // namespace

TEST_CASE("a device text is a type, or a type and a decimal ordinal up to 2^31 - 1") {
  CHECK(Device::parse("cpu") == Device::cpu());
  CHECK(Device::parse("cuda") == Device::cuda());
  CHECK(Device::parse("npu") == Device::of(kNpu));
  CHECK(Device::parse("npu") != Device::cuda());
  for (const int ordinal :
       {0, 1, 9, 10, 127, 128, 129, 255, 256, 300, 65535, 65536, 2147483646, Device::kOrdinalMax}) {
    for (const DeviceType type : {DeviceType::cuda(), kNpu}) {
      const std::string text = std::string(type.name()) + ":" + std::to_string(ordinal);
      CAPTURE(text);
      const Device device = Device::parse(text);
      CHECK(device.type() == type);
      CHECK(device.has_ordinal());
      CHECK(device.ordinal() == ordinal);
      CHECK(device == Device::of(type, ordinal));
      CHECK(device.to_string() == text);
    }
  }
}

TEST_CASE("cpu:0 is cpu, whose text is cpu") {
  CHECK(Device::parse("cpu:0") == Device::cpu());
  CHECK(Device::of(DeviceType::cpu(), 0) == Device::cpu());
  CHECK(Device::parse("cpu:0").to_string() == "cpu");
}

TEST_CASE(
    "any other text is refused by an error that quotes it and says why and what is accepted") {
  constexpr auto kUnknown = "unknown device type";
  constexpr auto kNone = "no ordinal after the colon";
  constexpr auto kNumber = "the ordinal is no number from 0 on";
  constexpr auto kLarge = "ordinal too large";
  constexpr auto kAfter = "characters after the ordinal";
  constexpr auto kZero = "leading zero";
  constexpr auto kCores = "all cores";
  const struct {
    std::string_view text;
    std::string_view reason;
  } cases[] = {
      {"CPU", kUnknown},
      {"Cuda", kUnknown},
      {"CUDA:0", kUnknown},
      {"NPU:0", kUnknown},
      {"cuda1", kUnknown},
      {"cuda;1", kUnknown},
      {"cuda-1", kUnknown},
      {"cuda :1", kUnknown},
      {" cuda:1", kUnknown},
      {"gpu", kUnknown},
      {"gpu:0", kUnknown},
      {"cud", kUnknown},
      {"cp", kUnknown},
      {"cpucuda", kUnknown},
      {"cpu,cuda", kUnknown},
      {"1", kUnknown},
      {"0", kUnknown},
      {":0", kUnknown},
      {":", kUnknown},
      {" ", kUnknown},
      {"-1", kUnknown},
      {"None", kUnknown},
      {"meta", kUnknown},
      {"cuda:", kNone},
      {"cpu:", kNone},
      {"npu:", kNone},
      {"cuda:-1", kNumber},
      {"cuda:+1", kNumber},
      {"cuda:-0", kNumber},
      {"cuda:-9223372036854775808", kNumber},
      {"cuda: 1", kNumber},
      {"cuda:one", kNumber},
      {"cuda::1", kNumber},
      {"cuda:N", kNumber},
      {"cuda:current", kNumber},
      {"cuda:*", kNumber},
      {"cuda:.5", kNumber},
      {"cuda:01", kZero},
      {"cuda:00", kZero},
      {"cpu:00", kZero},
      {"cuda:0000000000000000000000000", kZero},
      {"cuda:02147483648", kLarge},
      {"cuda:1 ", kAfter},
      {"cuda:1,2", kAfter},
      {"cuda:0x1", kAfter},
      {"cuda:1.0", kAfter},
      {"cuda:1e0", kAfter},
      {"cuda:1a", kAfter},
      {"cuda:1:2", kAfter},
      {"cuda:1_000", kAfter},
      {"cuda:1'0", kAfter},
      {"cuda:0-3", kAfter},
      {"cuda:99999999999999999999x", kAfter},
      {"cuda:2147483648", kLarge},            // 2^31
      {"cuda:2147483903", kLarge},            // 2^31 + 255
      {"cuda:4294967295", kLarge},            // 2^32 - 1, which wraps to -1
      {"cuda:4294967296", kLarge},            // 2^32, to 0
      {"cuda:4294967297", kLarge},            // to 1
      {"cuda:9223372036854775807", kLarge},   // 2^63 - 1
      {"cuda:9223372036854775808", kLarge},   // 2^63
      {"cuda:18446744073709551615", kLarge},  // 2^64 - 1
      {"cuda:18446744073709551616", kLarge},  // 2^64
      {"cuda:18446744073709551617", kLarge},
      {"cuda:99999999999999999999", kLarge},
      {"npu:2147483648", kLarge},
      {"cpu:4294967296", kLarge},
      {"cpu:1", kCores},
      {"cpu:128", kCores},
      {"cpu:256", kCores},
      {"cpu:2147483647", kCores},
  };
  static_assert(std::size(cases) >= 60);
  for (const auto& refused : cases) {
    const std::string_view text = refused.text;
    CAPTURE(text);
    const std::string message = refusal_of(text);
    CHECK(message.starts_with("\"" + std::string(text) + "\" does not name a device: "));
    CHECK(contains(message, refused.reason));
    CHECK(contains(message, "accepted: cpu, cpu:0, cuda, cuda:N, "));
    CHECK(contains(message, "npu, npu:N"));
    CHECK(contains(message, "from 0 to 2147483647"));
  }
}

TEST_CASE("nonprintable bytes are quoted as \\xNN, and the message is one line") {
  const struct {
    std::string_view text;
    std::string_view quoted;
  } cases[] = {
      {""sv, "\"\""},
      {"\n"sv, R"("\x0a")"},
      {"cuda\n"sv, R"("cuda\x0a")"},
      {"cuda:1\n"sv, R"("cuda:1\x0a")"},
      {"cuda:1\r\n"sv, R"("cuda:1\x0d\x0a")"},
      {"\tcpu"sv, R"("\x09cpu")"},
      {"\0"sv, R"("\x00")"},
      {"cpu\0"sv, R"("cpu\x00")"},
      {"cuda\0:1"sv, R"("cuda\x00:1")"},
      {"cuda:1\0"sv, R"("cuda:1\x00")"},
      {"cuda:\0001"sv, R"("cuda:\x001")"},
      {"cuda:1\x7f"sv, R"("cuda:1\x7f")"},
      {"cuda:1\x1b[2J"sv, R"("cuda:1\x1b[2J")"},
      {"cuda:\u0661"sv, R"("cuda:\xd9\xa1")"},      // an Arabic digit one
      {"cuda:\uff11"sv, R"("cuda:\xef\xbc\x91")"},  // a wide digit one
      {"cuda:\u00b2"sv, R"("cuda:\xc2\xb2")"},      // a superscript two
      {"\u0441uda"sv, R"("\xd1\x81uda")"},          // a Cyrillic c
      {"cuda\u200b:1"sv, R"("cuda\xe2\x80\x8b:1")"},
      {"\ufeffcuda"sv, R"("\xef\xbb\xbfcuda")"},
      {"cuda:\xff"sv, R"("cuda:\xff")"},
  };
  for (const auto& refused : cases) {
    const std::string_view quoted = refused.quoted;
    CAPTURE(quoted);
    CHECK(refusal_of(refused.text).starts_with(quoted));
  }
}

TEST_CASE("a text of any length is refused by a short message") {
  for (const std::string& text :
       {std::string(1'000'000, 'c'), "cuda:" + std::string(1'000'000, '1'),
        "cuda:" + std::string(1'000'000, '0'), "cuda:1" + std::string(1'000'000, ' '),
        std::string(1'000'000, ':'), std::string(1'000'000, '\0')}) {
    CHECK(refusal_of(text).size() < 1000);
  }
}

TEST_CASE("try_parse returns the result of parse, and its error rethrows as InvalidArgument") {
  CHECK(Device::try_parse("cuda:3").value() == Device::cuda(3));
  Result<Device> bad = Device::try_parse("cuda:x");
  CHECK_FALSE(bad);
  CHECK_THROWS_AS(bad.value(), InvalidArgument);
}

TEST_CASE("to_string gives the text that parse accepts") {
  CHECK(Device::cpu().to_string() == "cpu");
  CHECK(Device::cuda().to_string() == "cuda");
  CHECK(Device::cuda(0).to_string() == "cuda:0");
  CHECK(Device::of(kNpu).to_string() == "npu");
  for (const Device device : {Device::cpu(), Device::cuda(), Device::cuda(0), Device::cuda(INT_MAX),
                              Device::of(kNpu), Device::of(kNpu, INT_MAX)})
    CHECK(Device::parse(device.to_string()) == device);
}

TEST_CASE("negative ordinals are refused in code too, including the one that means current") {
  for (const int ordinal : {-1, -2, INT_MIN}) {
    CAPTURE(ordinal);
    CHECK(contains(message_of<InvalidArgument>([&] { return Device::cuda(ordinal); }),
                   "cuda:" + std::to_string(ordinal)));
    CHECK(contains(message_of<InvalidArgument>([&] { return Device::of(kNpu, ordinal); }),
                   "npu:" + std::to_string(ordinal)));
    message_of<InvalidArgument>([&] { return Device::of(DeviceType::cpu(), ordinal); });
  }
}

TEST_CASE("the CPU has no ordinal but 0 in code either") {
  for (const int ordinal : {1, 256, INT_MAX}) {
    CHECK(contains(
        message_of<InvalidArgument>([&] { return Device::of(DeviceType::cpu(), ordinal); }),
        "cpu:" + std::to_string(ordinal)));
  }
}

TEST_CASE("devices are keys: cuda, cuda:0 and npu:0 are different, however large the ordinal") {
  CHECK(Device::cuda() != Device::cuda(0));
  CHECK(Device::cpu() != Device::cuda(0));
  CHECK(Device::of(kNpu, 0) != Device::cuda(0));
  std::unordered_set<Device> hashed;
  std::set<Device> ordered;
  const auto insert = [&](Device device) {
    hashed.insert(device);
    ordered.insert(device);
  };
  insert(Device::cpu());
  for (const DeviceType type : {DeviceType::cuda(), kNpu}) {
    insert(Device::of(type));
    for (int ordinal = 0; ordinal <= 300; ++ordinal) insert(Device::of(type, ordinal));
    insert(Device::of(type, INT_MAX));
  }
  CHECK(hashed.size() == 607);
  CHECK(ordered.size() == 607);
  CHECK(hashed.contains(Device::parse("cuda:256")));
  CHECK_FALSE(hashed.contains(Device::cuda(301)));
}

TEST_CASE("devices are ordered by type, then by ordinal, the current device first") {
  CHECK(Device::cpu() < Device::cuda());
  CHECK(Device::cuda() < Device::cuda(0));
  CHECK(Device::cuda(1) < Device::cuda(2));
  CHECK(Device::cuda(INT_MAX) < Device::of(kNpu));
}

}  // namespace device_test
