// SPDX-License-Identifier: Apache-2.0
#include "berth/device_type.hpp"

#include <atomic>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include <doctest/doctest.h>

#include "berth/device.hpp"

#include "support/child_process.hpp"
#include "support/errors.hpp"

namespace device_type_test {

using namespace berth;
using namespace berth::test;
using namespace std::string_view_literals;

static_assert(DeviceType() == DeviceType::cpu());
static_assert(DeviceType::cpu().number() == 0 && DeviceType::cuda().number() == 1);
static_assert(DeviceType::cpu() < DeviceType::cuda());
static_assert(std::is_trivially_copyable_v<DeviceType> && sizeof(DeviceType) == 1);

namespace {

/// Before main(), as a framework's library may.
const DeviceType registered_early = DeviceType::register_name("early");

/// "t0", "t1" and so on.
DeviceType register_numbered(int number) {
  return DeviceType::register_name("t" + std::to_string(number));
}

}  // namespace

TEST_CASE("cpu and cuda are predefined, and registering them returns the same types") {
  CHECK(DeviceType::cpu().name() == "cpu");
  CHECK(DeviceType::cuda().name() == "cuda");
  CHECK(DeviceType::find("cpu") == DeviceType::cpu());
  CHECK(DeviceType::register_name("cpu") == DeviceType::cpu());
  CHECK(DeviceType::register_name("cuda") == DeviceType::cuda());
}

TEST_CASE("a type can be registered before main()") {
  CHECK(registered_early.name() == "early");
  CHECK(registered_early.number() >= 2);
  CHECK(DeviceType::find("early") == registered_early);
}

TEST_CASE("registering a name again returns the same type") {
  const DeviceType npu = DeviceType::register_name("npu");
  const int count = DeviceType::count();
  CHECK(DeviceType::register_name("npu") == npu);
  CHECK(DeviceType::count() == count);
  CHECK(DeviceType::find("npu") == npu);
  CHECK(DeviceType::from_number(npu.number()) == npu);
  CHECK(npu.name() == "npu");
  CHECK(npu.name().data()[3] == '\0');
}

TEST_CASE("valid type numbers are those below the count") {
  DeviceType::register_name("npu");
  std::set<std::string_view> names;
  for (int number = 0; number < DeviceType::count(); ++number) {
    const auto type = DeviceType::from_number(number);
    REQUIRE(type);
    CHECK(type->number() == number);
    CHECK(DeviceType::find(type->name()) == type);
    names.insert(type->name());
  }
  CHECK(names.size() == std::size_t(DeviceType::count()));
  for (const int number : {-1, -256, DeviceType::count(), DeviceType::kCountMax, 256, 257, 1 << 16})
    CHECK_FALSE(DeviceType::from_number(number));
}

TEST_CASE("a name is 1 to 15 of a-z, 0-9 and _, a letter first; others register nothing") {
  const int count = DeviceType::count();
  for (const std::string_view name :
       {""sv, "NPU"sv, "Npu"sv, "1npu"sv, "_npu"sv, "np-u"sv, "np u"sv, " npu"sv, "npu "sv,
        "npu:0"sv, ":"sv, "npu\0"sv, "\0"sv, "npu\n"sv, "n\u00e9u"sv, "sixteen_letters_"sv}) {
    CAPTURE(name);
    const std::string message =
        message_of<InvalidArgument>([&] { return DeviceType::register_name(name); });
    CHECK(contains(message, "1 to 15 of a-z, 0-9 and _"));
    CHECK_FALSE(DeviceType::find(name));
  }
  CHECK(DeviceType::count() == count);
  message_of<InvalidArgument>([] { return DeviceType::register_name(std::string(1 << 20, 'a')); });

  for (const std::string_view name : {"x"sv, "tpu_v4"sv, "fifteen_letters"sv})
    CHECK(DeviceType::register_name(name).name() == name);
}

TEST_CASE("find takes the whole name and nothing else") {
  DeviceType::register_name("npu");
  for (const std::string_view name : {""sv, "n"sv, "np"sv, "npuu"sv, "NPU"sv, "npu\0"sv})
    CHECK_FALSE(DeviceType::find(name));
}

TEST_CASE("at most 32 types can be registered, and a refusal leaves them usable") {
  const auto full = [] {
    for (int number = 0; DeviceType::count() < DeviceType::kCountMax; ++number)
      register_numbered(number);
    const bool known_stay = DeviceType::register_name("t0") == DeviceType::find("t0") &&
                            Device::parse("t0:7").to_string() == "t0:7";
    try {
      register_numbered(99);
    } catch (const InvalidArgument& error) {
      const bool says = contains(error.what(), "\"t99\"") && contains(error.what(), "32");
      const bool kept = DeviceType::count() == 32 && !DeviceType::from_number(32) &&
                        !DeviceType::find("t99") && DeviceType::find("cuda").has_value();
      return known_stay && says && kept ? 0 : 1;
    }
    return 3;
  };
  CHECK(exit_code_of(full) == 0);
}

TEST_CASE("threads that register names at once, in different orders, get the same types") {
  const auto together = [] {
    constexpr int kThreads = 2;
    constexpr int kNames = 16;
    std::atomic<int> arrived = 0;
    std::vector<std::vector<DeviceType>> got(kThreads, std::vector<DeviceType>(kNames));
    const int before = DeviceType::count();
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int turn = 0; turn < kNames; ++turn) {
          const int name = (turn + thread * kNames / kThreads) % kNames;
          // Each turn together: the moment in which both see the same free place is short.
          ++arrived;
          while (arrived < (turn + 1) * kThreads) std::this_thread::yield();
          got[std::size_t(thread)][std::size_t(name)] = register_numbered(name);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (DeviceType::count() != before + kNames) return 1;
    for (const auto& types : got) {
      if (types != got.front()) return 2;
    }
    for (int name = 0; name < kNames; ++name) {
      if (got.front()[std::size_t(name)].name() != "t" + std::to_string(name)) return 3;
    }
    return 0;
  };
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    CHECK(exit_code_of(together) == 0);
  }
}

TEST_CASE("types can be used as keys") {
  const std::unordered_set<DeviceType> types = {DeviceType::cpu(), DeviceType::cuda(),
                                                DeviceType::register_name("npu"),
                                                DeviceType::register_name("npu")};
  CHECK(types.size() == 3);
}

}  // namespace device_type_test
