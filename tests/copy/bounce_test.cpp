// SPDX-License-Identifier: Apache-2.0
// The pinned memory of small copies: its parts are not reused before their copies are done, even if
// streams are destroyed.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "copy/staged/bounce_memory.hpp"
#include "support/foreign_stream.hpp"
#include "support/tapped_device.hpp"

namespace bounce_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kPart = 4_KiB;
constexpr std::size_t kPartsOfBlock = 256_KiB / kPart;
/// More than the segment of pinned memory has whose blocks are handed out first: freed ones are
/// used again.
constexpr std::size_t kPartsOfSegments = 70 * kPartsOfBlock;

/// Copies of one host buffer, which is overwritten after each, into a range of device memory that
/// grows.
struct Series {
  Series(CopyTest& test, std::size_t parts, std::uint64_t first_seed)
      : test_(test), device_(test, Kind::device, parts * kPart), seed_(first_seed) {}

  void copy(StreamRef stream) {
    const Bytes content = pattern(kPart, seed_ + count_);
    Bytes source = content;
    test_.copier.copy_async(device_.data() + count_ * kPart, source.data(), kPart, stream);
    std::fill(source.begin(), source.end(), static_cast<unsigned char>(0xEE));
    expected_.insert(expected_.end(), content.begin(), content.end());
    ++count_;
  }
  [[nodiscard]] bool has_arrived() const {
    const Bytes there = device_.read();
    return std::equal(expected_.begin(), expected_.end(), there.begin());
  }

 private:
  CopyTest& test_;
  Buffer device_;
  const std::uint64_t seed_;
  std::size_t count_ = 0;
  Bytes expected_;
};

/// Marks for bounce memory.
EventPoolOf events_of(EventPool& events) {
  return [&events](DeviceContext&) -> EventPool& { return events; };
}

sim::Config with(sim::Progress progress, std::uint64_t seed = 1) {
  sim::Config config;
  config.progress = progress;
  config.seed = seed;
  return config;
}

}  // namespace

TEST_CASE("small copies behind a kernel write the bytes that they read, however many are pending") {
  CopyTest test(with(sim::Progress::manual));
  const Stream stuck = test.stream();
  const Stream other = test.stream();
  test.log.submit(stuck, "kernel");
  Series stuck_series(test, 3 * kPartsOfBlock, 1000);
  Series other_series(test, 3 * kPartsOfBlock, 2000);
  // In turns, so that both are in each block; only one of them comes to its copies.
  for (std::size_t copy = 0; copy < 3 * kPartsOfBlock; ++copy) {
    other_series.copy(other);
    stuck_series.copy(stuck);
    if (copy % 16 == 0) test.run_stream(other);
  }
  test.run_stream(other);
  Series later(test, kPartsOfSegments, 3000);
  for (std::size_t copy = 0; copy < kPartsOfSegments; ++copy) later.copy(other);
  CHECK_FALSE(test.log.is_done("kernel"));
  stuck.ref().sync();
  other.ref().sync();
  CHECK(stuck_series.has_arrived());
  CHECK(other_series.has_arrived());
  CHECK(later.has_arrived());
}

TEST_CASE("blocks whose copies are over are used again: pinned memory does not grow") {
  CopyTest test(with(sim::Progress::eager));
  const Stream stream = test.stream();
  Series series(test, 128 * kPartsOfBlock, 1);  // 32 MiB through segments of 16 MiB
  for (std::size_t copy = 0; copy < 128 * kPartsOfBlock; ++copy) series.copy(stream);
  stream.ref().sync();
  CHECK(series.has_arrived());
  CHECK(test.runtime->pinned_memory().counters().bytes_reserved.peak <= 16_MiB);
}

TEST_CASE("destroying a stream completes its pending small copies") {
  for (const bool is_foreign : {false, true}) {
    CAPTURE(is_foreign);
    CopyTest test(with(sim::Progress::manual));
    const Stream other = test.stream();
    std::optional<Series> series[3];
    for (std::uint64_t round = 0; round < 3; ++round) {
      series[round].emplace(test, kPartsOfBlock / 3, 100 * round);
      Stream made = test.stream();
      for (std::size_t copy = 0; copy < kPartsOfBlock / 3; ++copy) series[round]->copy(made);
      // Without a word where it is foreign.
      if (is_foreign) destroy_disowned(disown(std::move(made)));
    }
    Series later(test, kPartsOfSegments, 5000);
    for (std::size_t copy = 0; copy < kPartsOfSegments; ++copy) later.copy(other);
    test.simulator.run_all();
    for (const auto& each : series) CHECK(each->has_arrived());
    CHECK(later.has_arrived());
  }
}

TEST_CASE("small copies of many threads arrive, on streams of their own and on one") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    CopyTest test(with(sim::Progress::random, seed));
    const Stream shared = test.stream();
    std::atomic<int> changed = 0;
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 6; ++thread) {
      threads.emplace_back([&, thread] {
        const Stream own = test.stream();
        Buffer device(test, Kind::device, 64_KiB);
        std::minstd_rand random(thread + 10 * unsigned(seed));
        for (int round = 0; round < 60; ++round) {
          const StreamRef stream = thread % 2 == 0 ? own.ref() : shared.ref();
          const std::size_t bytes = 1 + random() % (round % 4 == 0 ? 64_KiB : 500);
          const Bytes content = pattern(bytes, random());
          Bytes source = content;
          Bytes back(bytes);
          test.copier.copy_async(device.data(), source.data(), bytes, stream);
          std::fill(source.begin(), source.end(), static_cast<unsigned char>(0));
          if (random() % 2 == 0)
            test.copier.copy(back.data(), device.data(), bytes, stream);
          else
            test.copier.copy_async(back.data(), device.data(), bytes, stream);
          if (back != content) ++changed;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(changed == 0);
    CHECK(test.simulator.take_findings().empty());
  }
}

TEST_CASE("rows and batches of small pageable sources travel the same way") {
  CopyTest test(with(sim::Progress::manual));
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, 16_KiB);
  Bytes rows = pattern(16_KiB, 1);
  const Bytes content = rows;
  test.log.submit(stream, "kernel");
  const std::uint64_t waits = driver_calls(*test.runtime, "cuStreamWaitValue32");
  const Transfer of_rows =
      test.copier.start_rows({device.data(), 256}, {rows.data(), 512}, 128, 16, stream);
  std::vector<CopyRange> ranges;
  for (std::size_t range = 0; range < 8; ++range)
    ranges.push_back({device.data() + 8_KiB + 512 * range, rows.data() + 8_KiB + 600 * range, 300});
  const Transfer batch = test.copier.start_batch(ranges, stream);
  std::fill(rows.begin(), rows.end(), static_cast<unsigned char>(0));  // both have been read
  CHECK(driver_calls(*test.runtime, "cuStreamWaitValue32") == waits);  // and no gate is needed
  CHECK_FALSE(test.log.is_done("kernel"));
  of_rows.wait();
  batch.wait();
  const Bytes there = device.read();
  for (std::size_t row = 0; row < 16; ++row)
    CHECK(std::equal(content.begin() + 512 * row, content.begin() + 512 * row + 128,
                     there.begin() + 256 * row));
  for (std::size_t range = 0; range < 8; ++range)
    CHECK(std::equal(content.begin() + 8_KiB + 600 * range,
                     content.begin() + 8_KiB + 600 * range + 300,
                     there.begin() + 8_KiB + 512 * range));
}

TEST_CASE("without pinned memory the driver copies, and no other stream is waited for") {
  sim::Config config = with(sim::Progress::manual);
  RuntimeOptions options;
  options.pinned_allocator.bytes_reserved_max = 16_MiB;
  Simulation test(config, options);
  Copier& copier = test.runtime->copier();
  PinnedAllocator& pinned = test.runtime->pinned_memory();
  const Stream stuck = test.runtime->create_stream(Device::cuda(0));
  const Stream other = test.runtime->create_stream(Device::cuda(0));
  DeviceAllocator& memory = test.runtime->memory(Device::cuda(0));
  const Allocation device = memory.allocate(kPart, other);
  // All of it is free as soon as `stuck` has come to its end.
  Allocation all = pinned.allocate(16_MiB);
  test.log.submit(stuck, "kernel");
  all.record_stream(stuck);
  all.reset();
  const Bytes content = pattern(kPart, 1);
  Bytes back(kPart);
  copier.copy_async(device.data(), content.data(), kPart, other);
  copier.copy(back.data(), device.data(), kPart, other);
  CHECK((back == content));
  CHECK_FALSE(test.log.is_done("kernel"));
  CHECK(copier.counters().copies_by_driver == 2);
  stuck.ref().sync();
  copier.copy_async(device.data(), content.data(), kPart, other);
  CHECK(copier.counters().copies_by_driver == 2);
  other.ref().sync();
}

TEST_CASE("a stream with the handle of a destroyed stream is recorded as a new stream") {
  TappedDevice test(with(sim::Progress::manual));
  PinnedAllocator pinned(test.registry, {.segment_bytes = 256_KiB});
  auto bounce = std::make_unique<BounceMemory>(test.registry, pinned, events_of(test.events));
  const Stream stream = test.stream();
  const std::byte* block = nullptr;
  {
    const BounceMemory::Part first = bounce->take(kPart, CopyDirection::to_device, stream);
    block = first.data();
  }
  test.context.retire_stream(stream.ref().native());
  test.run_stream(stream);  // the work of the one that went away is over
  test.log.submit(stream, "kernel");
  {
    const BounceMemory::Part second = bounce->take(kPart, CopyDirection::to_device, stream);
    REQUIRE(second.data() == block + kPart);
  }
  bounce.reset();
  {
    const Allocation next = pinned.allocate(256_KiB);
    CHECK_FALSE(overlap(next.data(), next.bytes(), block, 256_KiB));
  }
  test.run_stream(stream);
}

TEST_CASE_FIXTURE(TappedDevice,
                  "threads have blocks of their own, and take those that others have put back") {
  PinnedAllocator pinned(registry, {});
  BounceMemory bounce(registry, pinned, events_of(events));
  const Stream stream = this->stream();
  const std::byte* data = nullptr;
  {
    BounceMemory::Part first = bounce.take(100, CopyDirection::to_device, stream);
    BounceMemory::Part second = bounce.take(100, CopyDirection::to_device, stream);
    REQUIRE(first);
    REQUIRE(second);
    CHECK((second.data() < first.data() || second.data() >= first.data() + 256_KiB));
    data = first.data();
    first.reuse(stream.ref().context().driver());
  }
  CHECK(pinned.counters().blocks_allocated.current == 2);
  std::thread([&] {
    const BounceMemory::Part one = bounce.take(100, CopyDirection::to_device, stream);
    const BounceMemory::Part two = bounce.take(100, CopyDirection::to_device, stream);
    CHECK((one.data() == data || two.data() == data));  // whose copy is over
  }).join();
  CHECK(pinned.counters().blocks_allocated.current == 2);
}

TEST_CASE_FIXTURE(TappedDevice, "a part is not reused while its copy is pending") {
  PinnedAllocator pinned(registry, {});
  BounceMemory bounce(registry, pinned, events_of(events));
  const Stream stream = this->stream();
  std::vector<const std::byte*> parts;
  for (int count = 0; count < 40; ++count) {
    const BounceMemory::Part part = bounce.take(1000, CopyDirection::to_device, stream);
    for (const std::byte* other : parts)
      CHECK((part.data() + 1000 <= other || other + 1000 <= part.data()));
    parts.push_back(part.data());
  }
}

TEST_CASE("copies of one stream use the same block again and again, without a wait") {
  TappedDevice test(with(sim::Progress::manual));
  PinnedAllocator pinned(test.registry, {});
  BounceMemory bounce(test.registry, pinned, events_of(test.events));
  const Stream stream = test.stream();
  const auto take_half = [&] {
    const std::byte* const first = bounce.take(kPart, CopyDirection::to_device, stream).data();
    for (std::size_t part = 1; part < kPartsOfBlock / 2; ++part)
      CHECK(bounce.take(kPart, CopyDirection::to_device, stream).data() == first + part * kPart);
    return first;
  };
  const std::byte* const first = take_half();
  CHECK(take_half() == first + 128_KiB);
  test.run_stream(stream);
  for (int turn = 0; turn < 6; ++turn) {  // the device is half a block behind
    CHECK(take_half() == first + (turn % 2) * 128_KiB);
    test.run_stream(stream);
  }
  CHECK(pinned.counters().blocks_allocated.peak == 1);
  // From here on the stream passes nothing: each half of this block, and of the next, is used once.
  test.log.submit(stream, "kernel");
  std::vector<const std::byte*> halves;
  for (int turn = 0; turn < 5; ++turn) {
    const std::byte* const half = take_half();
    for (const std::byte* other : halves) CHECK_FALSE(overlap(half, 128_KiB, other, 128_KiB));
    halves.push_back(half);
  }
  test.run_stream(stream);
}

TEST_CASE("parts that several streams have used are not reused by one of them alone") {
  TappedDevice test(with(sim::Progress::manual));
  PinnedAllocator pinned(test.registry, {});
  BounceMemory bounce(test.registry, pinned, events_of(test.events));
  const Stream stuck = test.stream();
  const Stream stream = test.stream();
  test.log.submit(stuck, "kernel");
  for (const bool is_first : {true, false}) {
    CAPTURE(is_first);
    const std::byte* const pending = [&] {
      if (!is_first) static_cast<void>(bounce.take(kPart, CopyDirection::to_device, stream));
      return bounce.take(kPart, CopyDirection::to_device, stuck).data();
    }();
    for (std::size_t part = 0; part < 4 * kPartsOfBlock; ++part) {
      BounceMemory::Part later = bounce.take(kPart, CopyDirection::to_device, stream);
      CHECK(later.data() != pending);
      test.run_stream(stream);
      if (part % 2 == 0) later.reuse(stream.ref().context().driver());
    }
  }
  test.run_stream(stuck);
}

TEST_CASE("after the host waited for a copy, its stream reuses all parts of earlier copies") {
  TappedDevice test(with(sim::Progress::manual));
  PinnedAllocator pinned(test.registry, {});
  BounceMemory bounce(test.registry, pinned, events_of(test.events));
  const Stream stream = test.stream();
  const std::byte* const first = bounce.take(kPart, CopyDirection::to_device, stream).data();
  for (int pair = 0; pair < 200; ++pair) {
    static_cast<void>(bounce.take(kPart, CopyDirection::to_device, stream));
    BounceMemory::Part last = bounce.take(kPart, CopyDirection::to_device, stream);
    test.run_stream(stream);
    last.reuse(stream.ref().context().driver());
  }
  CHECK(bounce.take(kPart, CopyDirection::to_device, stream).data() == first);
  CHECK(test.events.events_created() == 0);
}

TEST_CASE("a half block of a destroyed stream is not reused by a stream with its handle") {
  TappedDevice test(with(sim::Progress::manual));
  PinnedAllocator pinned(test.registry, {.segment_bytes = 256_KiB});
  BounceMemory bounce(test.registry, pinned, events_of(test.events));
  const Stream stream = test.stream();
  test.log.submit(stream, "kernel");
  const std::byte* block = nullptr;
  for (std::size_t part = 0; part < kPartsOfBlock / 2; ++part) {
    const BounceMemory::Part taken = bounce.take(kPart, CopyDirection::to_device, stream);
    if (part == 0) block = taken.data();
  }
  test.context.retire_stream(stream.ref().native());
  const BounceMemory::Part next = bounce.take(kPart, CopyDirection::to_device, stream);
  CHECK_FALSE(overlap(next.data(), kPart, block, 256_KiB));
  test.run_stream(stream);
}

TEST_CASE("large copies wait for no other stream where no pinned memory can be had") {
  RuntimeOptions options;
  options.pinned_allocator.bytes_reserved_max = 16_MiB;
  Simulation test(with(sim::Progress::manual), options);
  Copier& copier = test.runtime->copier();
  const Stream stuck = test.runtime->create_stream(Device::cuda(0));
  const Stream other = test.runtime->create_stream(Device::cuda(0));
  constexpr std::size_t kLarge = 5_MiB;
  const Allocation device = test.runtime->memory(Device::cuda(0)).allocate(kLarge, other);
  // All of it is free as soon as `stuck` has come to its end.
  Allocation all = test.runtime->pinned_memory().allocate(16_MiB);
  test.log.submit(stuck, "kernel");
  all.record_stream(stuck);
  all.reset();
  for (const std::size_t bytes : {200_KiB, kLarge}) {
    const Bytes content = pattern(bytes, 1);
    const Transfer in = copier.start(device.data(), content.data(), bytes, other);
    Bytes back(bytes);
    const Transfer out = copier.start(back.data(), device.data(), bytes, other);
    out.wait();
    CHECK((back == content));
  }
  CHECK_FALSE(test.log.is_done("kernel"));
  CHECK(copier.counters().copies_by_driver == 4);
  stuck.ref().sync();
}

}  // namespace bounce_test
