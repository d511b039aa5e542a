// SPDX-License-Identifier: Apache-2.0
// Copies whose range is not within one live pinned block: refused by every kind of copy, and no
// other bytes are written.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "copy/copy_fixture.hpp"
#include "support/captured_graph.hpp"
#include "support/errors.hpp"

namespace pinned_bounds_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kMost = 1_MiB;

struct PinnedBounds : CopyTest {
  PinnedBounds() {
    RuntimeOptions options;
    options.driver = "sim";
    other = std::make_unique<Runtime>(options);
  }

  /// Tries every way of copying between `pinned` and a device, or the host, of which each must
  /// throw an InvalidArgument whose message has all of `parts`.
  void check_refused(unsigned char* pinned, std::size_t bytes,
                     const std::vector<std::string>& parts) {
    CAPTURE(bytes);
    const auto refused = [&](const std::function<void()>& copy) {
      const std::string message = message_of<InvalidArgument>(copy);
      for (const std::string& part : parts) {
        CAPTURE(message);
        CHECK(contains(message, part));
      }
    };
    const CopyStreams both{.target_stream = own, .source_stream = second};
    unsigned char* const there = device.data();
    refused([&] { copier.copy(pinned, there, bytes, own); });
    refused([&] { copier.copy(there, pinned, bytes, own); });
    refused([&] { copier.copy(host.data(), pinned, bytes, own); });
    refused([&] { copier.copy(pinned, host.data(), bytes, own); });
    refused([&] { copier.copy_async(pinned, there, bytes, own); });
    refused([&] { copier.copy_async(there, pinned, bytes, own); });
    refused([&] { copier.copy_async(pinned, there, bytes, both); });
    refused([&] { copier.start(pinned, there, bytes, own); });
    refused([&] { copier.start(there, pinned, bytes, own); });
    refused([&] { copier.start(pinned, there, bytes, both); });
    refused([&] { copier.start_rows({pinned, 5}, {there, 5}, 5, bytes / 5, own); });
    refused([&] { copier.start_rows({there, 5}, {pinned, 5}, 5, bytes / 5, own); });
    const CopyRange out[] = {{host.data(), there, 5}, {pinned, there + 5, bytes}};
    const CopyRange in[] = {{there, host.data(), 5}, {there + 5, pinned, bytes}};
    refused([&] { copier.start_batch(out, own); });
    refused([&] { copier.start_batch(in, own); });
    refused([&] { copier.copy(pinned, host.data(), bytes); });
    refused([&] { copier.copy(host.data(), pinned, bytes); });
    begin_capture(own);
    refused([&] { copier.copy_async(pinned, there, bytes, own); });
    const CapturedGraph graph(own);
    CHECK(graph.nodes() == 0);
    CHECK(copier.counters().bytes_copied == 0);
  }

  const Stream own = stream();
  const Stream second = stream();
  Buffer device{*this, Kind::device, kMost};
  Bytes host = Bytes(kMost, 1);
  std::unique_ptr<Runtime> other;
};

}  // namespace

TEST_CASE("a pinned block that is free is refused by every copy, however small") {
  for (const bool is_of_other : {false, true}) {
    CAPTURE(is_of_other);
    PinnedBounds test;
    Runtime& owner = is_of_other ? *test.other : *test.runtime;
    Allocation block = owner.pinned_memory().allocate(kMost);
    auto* const freed = static_cast<unsigned char*>(block.data());
    std::memset(freed, 7, kMost);
    block.reset();
    for (const std::size_t bytes : {std::size_t{10}, 64_KiB, 64_KiB + 1}) {
      test.check_refused(freed, bytes, {"is in free pinned memory"});
      test.check_refused(freed + 4096 + 1, bytes, {"is in free pinned memory"});
    }
    test.own.ref().sync();
    CHECK(std::all_of(freed, freed + kMost, [](unsigned char byte) { return byte == 7; }));
  }
}

TEST_CASE("a range that runs past the end of its pinned block is refused by every copy") {
  for (const bool is_of_other : {false, true}) {
    CAPTURE(is_of_other);
    PinnedBounds test;
    Runtime& owner = is_of_other ? *test.other : *test.runtime;
    std::vector<Allocation> blocks;
    for (int count = 0; count < 4; ++count) {
      blocks.push_back(owner.pinned_memory().allocate(512));
      std::memset(blocks.back().data(), 7, 512);
    }
    const auto address = [](const Allocation& block) {
      return static_cast<unsigned char*>(block.data());
    };
    std::sort(blocks.begin(), blocks.end(),
              [&](const Allocation& a, const Allocation& b) { return address(a) < address(b); });
    REQUIRE(address(blocks[0]) + 512 == address(blocks[1]));
    unsigned char* const block = address(blocks[0]);
    const auto names_all = [&](std::size_t offset, std::size_t bytes) {
      test.check_refused(block + offset, bytes,
                         {fmt::format("{}", fmt::ptr(block)), "512 B", "past the end"});
    };
    names_all(0, 4096);
    names_all(0, 515);
    names_all(508, 15);
    blocks[1].reset();  // whether the neighbor is live or not
    names_all(0, 600);
    for (const Allocation& each : blocks) {
      if (each.data() == nullptr) continue;
      CHECK(std::all_of(address(each), address(each) + 512,
                        [](unsigned char byte) { return byte == 7; }));
    }
    test.copier.copy(block, test.device.data(), 512, test.own);
    test.copier.copy(test.host.data(), block + 1, 511);
  }
}

TEST_CASE("bytes that rounding adds to a pinned block cannot be copied") {
  for (const bool is_of_other : {false, true}) {
    CAPTURE(is_of_other);
    PinnedBounds test;
    Runtime& owner = is_of_other ? *test.other : *test.runtime;
    const Allocation block = owner.pinned_memory().allocate(10'000);
    auto* const data = static_cast<unsigned char*>(block.data());
    test.check_refused(data, 10'005, {"10000 B", "past the end"});
    test.check_refused(data + 10'000, 5, {"10000 B", "past the end"});
    test.check_refused(data + 9'999, 10, {"10000 B", "past the end"});
    test.copier.copy(data, test.device.data(), 10'000, test.own);
  }
}

TEST_CASE("a range that extends beyond a registration is copied by the host") {
  PinnedBounds test;
  Bytes memory(64_KiB, 3);
  const HostRegistration registered =
      test.runtime->pinned_memory().register_memory(memory.data() + 8192, 8192);
  test.copier.copy(test.host.data(), memory.data() + 8192, 16384);
  CHECK(test.host[16383] == 3);
}

TEST_CASE("a batch may contain one block many times, without a driver query") {
  PinnedBounds test;
  const Allocation block = test.runtime->pinned_memory().allocate(64_KiB);
  auto* const data = static_cast<unsigned char*>(block.data());
  std::vector<CopyRange> ranges;
  for (std::size_t index = 0; index < 16; ++index)
    ranges.push_back({test.device.data() + index * 4096, data + index * 4096, 2048});
  const std::uint64_t asked = driver_calls(*test.runtime, "cuPointerGetAttributes");
  test.copier.start_batch(ranges, test.own).wait();
  CHECK(driver_calls(*test.runtime, "cuPointerGetAttributes") - asked == 1);  // about the device's
  CHECK(test.copier.counters().bytes_copied == 16 * 2048);
}

}  // namespace pinned_bounds_test
