// SPDX-License-Identifier: Apache-2.0
// Copies of two threads at once, through one staging ring.
#include <cstddef>
#include <random>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"

namespace copy_threads_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Round trips of random sizes through device memory; how many came back changed.
int round_trips(CopyTest& test, const Stream& stream, unsigned seed) {
  constexpr std::size_t kBytesMax = 400'000;
  std::minstd_rand random(seed);
  Buffer device(test, Kind::device, kBytesMax);
  Buffer pinned(test, Kind::pinned, kBytesMax);
  int changed = 0;
  for (int round = 0; round < 40; ++round) {
    const std::size_t bytes = 1 + random() % kBytesMax;
    const std::size_t offset = random() % (kBytesMax - bytes + 1);
    const Bytes content = pattern(bytes, random());
    Bytes source = content;
    Bytes back(bytes);
    test.copier.copy_async(device.data() + offset, source.data(), bytes, stream);
    std::fill(source.begin(), source.end(), static_cast<unsigned char>(0));
    const bool through_pinned = random() % 2 == 0;
    unsigned char* const target = through_pinned ? pinned.data() : back.data();
    test.copier.copy_async(target, device.data() + offset, bytes, stream);
    stream.ref().sync();
    changed += std::equal(content.begin(), content.end(), target) ? 0 : 1;
  }
  return changed;
}

}  // namespace

TEST_CASE("two threads copy on streams of their own, and every byte arrives") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::random}) {
    sim::Config config;
    config.progress = progress;
    CopyTest test(config, {.staging_slot_bytes = 64_KiB, .staging_slots = 2});
    const Stream streams[] = {test.stream(), test.stream()};
    int changed_there = 0;
    std::thread other([&] { changed_there = round_trips(test, streams[1], 2); });
    const int changed_here = round_trips(test, streams[0], 1);
    other.join();
    CHECK(changed_here == 0);
    CHECK(changed_there == 0);
  }
}

TEST_CASE("two threads copy to two devices at once") {
  sim::Config config;
  config.devices = 2;
  config.progress = sim::Progress::random;
  CopyTest test(config, {.staging_slot_bytes = 64_KiB, .staging_slots = 2});
  std::vector<int> changed(2, -1);
  const auto copy_to = [&](int device, Kind kind) {
    const Stream stream = test.stream(device);
    Buffer there(test, kind, 300'000);
    int wrong = 0;
    for (int round = 0; round < 40; ++round) {
      const Bytes content = pattern(300'000, std::uint64_t(round));
      test.copier.copy(there.data(), content.data(), 300'000, stream);
      wrong += there.read() == content ? 0 : 1;
    }
    changed[std::size_t(device)] = wrong;
  };
  std::thread other([&] { copy_to(1, Kind::peer); });
  copy_to(0, Kind::device);
  other.join();
  CHECK(changed[0] == 0);
  CHECK(changed[1] == 0);
}

}  // namespace copy_threads_test
