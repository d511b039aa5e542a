// SPDX-License-Identifier: Apache-2.0
#include "device/similar_device.hpp"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "berth/device.hpp"

#include "support/errors.hpp"

namespace similar_device_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_view_literals;

TEST_CASE("text similar to one device suggests that device") {
  DeviceType::register_name("npu");
  DeviceType::register_name("tpu_v4");
  const struct {
    std::string_view text;
    std::string_view meant;
  } cases[] = {
      {"gpu", "cuda"},       {"gpu:0", "cuda:0"},   {"GPU:1", "cuda:1"},   {"gpu3", "cuda:3"},
      {"nvidia", "cuda"},    {"host", "cpu"},       {"CUDA", "cuda"},      {"Cuda:12", "cuda:12"},
      {"CPU", "cpu"},        {"cud", "cuda"},       {"cdua:1", "cuda:1"},  {"cudda", "cuda"},
      {"cup", "cpu"},        {"cpuu", "cpu"},       {"cuba", "cuda"},      {"cuda1", "cuda:1"},
      {"cuda 1", "cuda:1"},  {"cuda-1", "cuda:1"},  {"cuda;1", "cuda:1"},  {" cuda:1", "cuda:1"},
      {"cuda:1 ", "cuda:1"}, {"cuda :1", "cuda:1"}, {"cuda:01", "cuda:1"}, {"cuda:00", "cuda:0"},
      {"cuda:", "cuda"},     {"cuda\n", "cuda"},    {"cpu:1", "cpu"},      {"cpu0", "cpu"},
      {"NPU:2", "npu:2"},    {"npuu", "npu"},       {"TPU_V4", "tpu_v4"},  {"tpu_v41", "tpu_v4"},
      {"tpu_v3", "tpu_v4"},  {"\0cuda"sv, "cuda"},
  };
  for (const auto& slip : cases) {
    const std::string_view text = slip.text;
    CAPTURE(text);
    const auto similar = similar_device(text);
    REQUIRE(similar);
    CHECK(similar->to_string() == slip.meant);
    const std::string part = "; perhaps \"" + std::string(slip.meant) + "\"; accepted: ";
    CHECK(contains(message_of<InvalidArgument>([&] { return Device::parse(text); }), part));
  }
}

TEST_CASE("text similar to no device, or to two, has no suggestion") {
  DeviceType::register_name("near_a");
  DeviceType::register_name("near_b");
  for (const std::string_view text : {""sv,
                                      "1"sv,
                                      ":"sv,
                                      ":1"sv,
                                      "c"sv,
                                      "cu"sv,
                                      "cp"sv,
                                      "xpu"sv,
                                      "dpu:0"sv,
                                      "meta"sv,
                                      "cpucuda"sv,
                                      "cuda:-1"sv,
                                      "cuda:one"sv,
                                      "cuda:1.5"sv,
                                      "cuda:0,1"sv,
                                      "cuda::1"sv,
                                      "cuda:2147483648"sv,
                                      "cuda2147483648"sv,
                                      "near_c"sv,
                                      "\u0441uda"sv,
                                      "\xff\xfe"sv}) {
    CAPTURE(text);
    CHECK_FALSE(similar_device(text));
    CHECK_FALSE(
        contains(message_of<InvalidArgument>([&] { return Device::parse(text); }), "perhaps"));
  }
  CHECK_FALSE(similar_device("cuda:1" + std::string(1'000'000, ' ')));
}

}  // namespace similar_device_test
