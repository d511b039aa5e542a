// SPDX-License-Identifier: Apache-2.0
// When the copies of a batch read their sources, when memory may be freed, and how a batch ends.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "copy/batch_fixture.hpp"
#include "support/errors.hpp"

namespace batch_order_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Copies of one batch of each way that there is between a device and the host: direct ones, small
/// pinned ones that are packed, and pageable ones.
struct Ways {
  explicit Ways(CopyTest& test) : batch(test) {}

  void add(bool to_device) {
    auto& device = batch.make(Kind::device, 600'000);
    auto& pinned = batch.make(Kind::pinned, 600'000);
    auto& pageable = batch.make(Kind::pageable, 600'000);
    const auto add = [&](std::size_t there, BatchTest::Known& host, std::size_t here,
                         std::size_t bytes) {
      if (to_device)
        batch.add(device, there, host, here, bytes);
      else
        batch.add(host, here, device, there, bytes);
    };
    for (std::size_t index = 0; index < 4; ++index)
      add(index * 30'000, pinned, index * 40'000, 20'000);  // direct
    for (std::size_t index = 0; index < 20; ++index)
      add(200'000 + index * 2000, pinned, 300'000 + index * 3000, 2000);  // packed
    for (std::size_t index = 0; index < 5; ++index)
      add(300'000 + index * 40'000, pageable, index * 50'000, 30'000);  // staged
  }
  BatchTest::Known& device() { return batch.buffers[0]; }

  BatchTest batch;
};

std::vector<CopyRange> ranges(std::byte* target, std::size_t target_stride, std::byte* source,
                              std::size_t source_stride, std::size_t bytes, std::size_t count) {
  std::vector<CopyRange> copies;
  for (std::size_t index = 0; index < count; ++index)
    copies.push_back({target + index * target_stride, source + index * source_stride, bytes});
  return copies;
}

}  // namespace

TEST_CASE("start_batch() returns at once, whatever is pending" * needs_gates()) {
  for (const bool to_device : {true, false}) {
    CAPTURE(to_device);
    CopyTest test(batch_machine(sim::Progress::manual), small_pieces());
    const Stream stream = test.stream();
    Ways ways(test);
    ways.add(to_device);
    test.log.submit(stream, "earlier");
    const Transfer transfer = ways.batch.start(stream);
    CHECK_FALSE(test.log.is_done("earlier"));
    CHECK_FALSE(transfer.is_done());
    CHECK(transfer.bytes_done() == 0);
    CHECK(test.copier.counters().staging_waits == 0);
    transfer.wait();
    ways.batch.check_arrived();
  }
}

TEST_CASE("the copies of a batch are in the order of their stream") {
  for (const auto progress : {sim::Progress::manual, sim::Progress::random}) {
    for (const bool to_device : {true, false}) {
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        CAPTURE(int(progress));
        CAPTURE(to_device);
        CAPTURE(seed);
        sim::Config config = batch_machine(progress);
        config.seed = seed;
        CopyTest test(config, small_pieces());
        const Stream stream = test.stream();
        Ways ways(test);
        ways.add(to_device);
        BatchTest::Known& device = ways.device();
        const std::size_t bytes = device.buffer.bytes();
        Buffer seen(test, Kind::pageable, bytes);
        // The device holds something else before, and again after.
        const Bytes content = device.buffer.read();
        Buffer kept(test, Kind::foreign_device, bytes);
        kept.write(content);
        test.copier.fill_async(device.buffer.data(), 1, bytes, stream);
        test.copier.start(device.buffer.data(), kept.data(), bytes, stream);
        const Transfer transfer = ways.batch.start(stream);
        test.copier.start(seen.data(), device.buffer.data(), bytes, stream);
        test.copier.fill_async(device.buffer.data(), 2, bytes, stream);
        stream.ref().sync();
        transfer.wait();
        CHECK((seen.read() == device.expected));
        device.expected = Bytes(bytes, 2);
        ways.batch.check_arrived();
      }
    }
  }
}

TEST_CASE("an event recorded after a batch marks the completion of the whole batch") {
  CopyTest test(batch_machine(sim::Progress::manual), small_pieces());
  const Stream stream = test.stream();
  Ways ways(test);
  ways.add(false);
  ways.batch.start(stream);
  const EventLease mark = test.runtime->record(stream);
  test.log.submit(stream, "after");
  mark->sync();
  ways.batch.check_arrived();
  CHECK_FALSE(test.log.is_done("after"));
}

TEST_CASE(
    "host to host copies of a batch run after earlier work and are done when the call returns") {
  CopyTest test(batch_machine(sim::Progress::manual), small_pieces());
  const Stream stream = test.stream();
  BatchTest batch(test);
  auto& target = batch.make(Kind::pageable, 100'000);
  auto& pinned = batch.make(Kind::pinned, 100'000);
  batch.add_many(target, 300, pinned, 400, 300, 200);
  test.log.submit(stream, "earlier");
  const Transfer transfer = batch.start(stream);
  CHECK(transfer.is_done());
  CHECK(transfer.bytes() == batch.total);
  batch.check_arrived();
  CHECK(test.log.is_done("earlier"));
}

TEST_CASE(
    "a batch reads pinned memory after what the stream wrote there, however small its ranges") {
  // Ranges that adjoin on one side: on that of the source, ranges of a device would be packed.
  for (const std::size_t target_stride : {900, 1000}) {
    const std::size_t source_stride = 1900 - target_stride;
    for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
      CAPTURE(target_stride);
      CAPTURE(seed);
      sim::Config machine =
          batch_machine(seed == 1 ? sim::Progress::manual : sim::Progress::random);
      machine.seed = seed;
      CopyTest test(machine, small_pieces());
      const Stream stream = test.stream();
      BatchTest out(test);
      BatchTest in(test);
      auto& from = out.make(Kind::device, 100'000);
      auto& between = out.make(Kind::pinned, 100'000);
      out.add_many(between, source_stride, from, target_stride, 900, 100);
      const Transfer written = out.start(stream);
      auto& to = in.make(Kind::device, 100'000);
      in.add_many(to, target_stride, between, source_stride, 900, 100);
      in.start(stream).wait();
      written.wait();
      out.check_arrived();
      in.check_arrived();
    }
  }
}

TEST_CASE("pinned blocks of a batch can be freed after the call, and their reuse waits") {
  // Direct, and packed into staging memory, of which the host reads them.
  for (const std::size_t bytes : {std::size_t{20'000}, std::size_t{2000}}) {
    for (const bool to_device : {true, false}) {
      CAPTURE(bytes);
      CAPTURE(to_device);
      CopyTest test(batch_machine(sim::Progress::manual), small_pieces());
      const Stream stream = test.stream();
      PinnedAllocator& pinned = test.runtime->pinned_memory();
      constexpr std::size_t kBlocks = 50;
      Buffer device(test, Kind::device, kBlocks * bytes);
      const Bytes content = pattern(device.bytes(), 5);
      if (!to_device) device.write(content);
      std::vector<Allocation> blocks;
      std::vector<CopyRange> copies;
      for (std::size_t index = 0; index < kBlocks; ++index) {
        blocks.push_back(pinned.allocate(bytes));
        void* const block = blocks.back().data();
        void* const there = device.data() + index * bytes;
        if (to_device)
          std::copy_n(content.begin() + std::ptrdiff_t(index * bytes), bytes,
                      static_cast<unsigned char*>(block));
        copies.push_back(to_device ? CopyRange{there, block, bytes}
                                   : CopyRange{block, there, bytes});
      }
      // A stream that waits, so that nothing of the host's part can be over by chance either.
      test.log.submit(stream, "earlier");
      const Transfer transfer = test.copier.start_batch(copies, stream);
      blocks.clear();
      std::vector<Allocation> next;
      for (std::size_t index = 0; index < kBlocks; ++index) {
        next.push_back(pinned.allocate(bytes));
        std::fill_n(static_cast<unsigned char*>(next.back().data()), bytes,
                    static_cast<unsigned char>(0xEE));
      }
      transfer.wait();
      stream.ref().sync();
      if (to_device) CHECK((device.read() == content));
      std::size_t overwritten = 0;
      for (const Allocation& block : next) {
        const auto* const begin = static_cast<const unsigned char*>(block.data());
        if (std::count(begin, begin + bytes, 0xEE) != std::ptrdiff_t(bytes)) ++overwritten;
      }
      CHECK(overwritten == 0);
    }
  }
}

TEST_CASE("on_done is called and keep_alive released once, when the whole batch is done") {
  for (const bool to_device : {true, false}) {
    CAPTURE(to_device);
    CopyTest test(batch_machine(sim::Progress::manual), small_pieces());
    const Stream stream = test.stream();
    Ways ways(test);
    ways.add(to_device);
    auto owner = std::make_shared<int>(1);
    const std::weak_ptr<int> watched = owner;
    std::atomic<int> calls = 0;
    std::promise<bool> ended;
    const Transfer transfer = ways.batch.start(
        stream, {.keep_alive = std::move(owner), .on_done = [&](std::exception_ptr failure) {
                   if (++calls == 1) ended.set_value(failure == nullptr);
                 }});
    CHECK_FALSE(watched.expired());
    CHECK(calls == 0);
    stream.ref().sync();
    CHECK(ended.get_future().get());
    CHECK(transfer.is_done());
    ways.batch.check_arrived();
    test.runtime->completions().finish();
    CHECK(calls == 1);
    while (!watched.expired()) std::this_thread::yield();
  }
}

TEST_CASE("a batch without bytes ends, too") {
  CopyTest test(batch_machine(sim::Progress::eager), small_pieces());
  const Stream stream = test.stream();
  std::promise<bool> ended;
  test.copier.start_batch({}, stream, {.on_done = [&](std::exception_ptr failure) {
                            ended.set_value(failure == nullptr);
                          }});
  CHECK(ended.get_future().get());
}

TEST_CASE("a cancelled batch reports it; its direct copies complete, and its stream continues" *
          needs_gates()) {
  CopyTest test(batch_machine(sim::Progress::manual), small_pieces());
  const Stream stream = test.stream();
  BatchTest batch(test);
  auto& device = batch.make(Kind::device, 400'000);
  auto& pinned = batch.make(Kind::pinned, 400'000);
  batch.add_many(device, 20'000, pinned, 21'000, 20'000, 15);
  Buffer there(test, Kind::device, 10'000'000);
  Bytes here(there.bytes(), 1);
  for (std::size_t at = 0; at < here.size(); at += 100'000)
    batch.copies.push_back({there.data() + at, here.data() + at, 99'999});
  std::promise<std::exception_ptr> ended;
  Transfer transfer = batch.start(
      stream, {.on_done = [&](std::exception_ptr failure) { ended.set_value(failure); }});
  test.log.submit(stream, "after");
  transfer.cancel();
  message_of<Cancelled>([&] { transfer.wait(); });
  CHECK(transfer.is_done());
  CHECK(transfer.failure() != nullptr);
  here = Bytes();  // nobody reads it any more
  stream.ref().sync();
  CHECK(test.log.is_done("after"));
  CHECK(ended.get_future().get() != nullptr);
  batch.check_arrived();
  CHECK(there.guards_hold());
  batch.copies.resize(15);
  batch.start(stream).wait();
}

TEST_CASE("progress of a batch never goes back, and ends at all of its bytes") {
  CopyTest test(batch_machine(sim::Progress::manual), small_pieces());
  const Stream stream = test.stream();
  Ways ways(test);
  ways.add(true);
  const Transfer transfer = ways.batch.start(stream);
  std::size_t last = 0;
  while (!transfer.is_done()) {
    test.run_next(stream);
    const std::size_t now = transfer.bytes_done();
    CHECK(now >= last);
    last = now;
  }
  CHECK(transfer.bytes_done() == ways.batch.total);
  ways.batch.check_arrived();
}

TEST_CASE("the destructor of a Runtime waits for pending batches") {
  Bytes back(1'000'000);
  const Bytes content = pattern(back.size(), 2);
  {
    CopyTest test(batch_machine(sim::Progress::eager), small_pieces());
    const Stream stream = test.stream();
    Buffer there(test, Kind::device, back.size());
    there.write(content);
    std::vector<CopyRange> copies;
    for (std::size_t at = 0; at < back.size(); at += 10'000)
      copies.push_back({back.data() + at, there.data() + at, 10'000});
    test.copier.start_batch(copies, stream);
    stream.ref().sync();
  }
  CHECK((back == content));
}

TEST_CASE("several threads start batches at once, on streams of their own and on a common one") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::random}) {
    CAPTURE(int(progress));
    CopyTest test(batch_machine(progress), small_pieces());
    const Stream common = test.stream();
    constexpr int kThreads = 3;
    std::vector<int> changed(kThreads, -1);
    const auto run = [&](int index) {
      const Stream own = test.stream();
      std::minstd_rand random(unsigned(index) + 1);
      Buffer device(test, Kind::device, 400'000);
      Buffer pinned(test, Kind::pinned, 400'000);
      int wrong = 0;
      for (int round = 0; round < 15; ++round) {
        const StreamRef stream = round % 2 == 0 ? own.ref() : common.ref();
        const std::size_t bytes = 1 + random() % 3999;
        const bool is_pinned = random() % 2 == 0;
        const Bytes content = pattern(400'000, random());
        Bytes source = content;
        Bytes back(400'000);
        if (is_pinned) pinned.write(content);
        auto* const from = reinterpret_cast<std::byte*>(is_pinned ? pinned.data() : source.data());
        auto* const there = reinterpret_cast<std::byte*>(device.data());
        auto* const to = reinterpret_cast<std::byte*>(back.data());
        const Transfer in =
            test.copier.start_batch(ranges(there, bytes, from, 4000, bytes, 100), stream);
        const Transfer out =
            test.copier.start_batch(ranges(to, bytes, there, bytes, bytes, 100), stream);
        out.wait();
        in.wait();
        for (std::size_t range = 0; range < 100; ++range) {
          if (!std::equal(content.begin() + std::ptrdiff_t(range * 4000),
                          content.begin() + std::ptrdiff_t(range * 4000 + bytes),
                          back.begin() + std::ptrdiff_t(range * bytes)))
            ++wrong;
        }
      }
      changed[std::size_t(index)] = wrong;
    };
    std::vector<std::thread> threads;
    for (int index = 1; index < kThreads; ++index) threads.emplace_back(run, index);
    run(0);
    for (std::thread& thread : threads) thread.join();
    CHECK(changed == std::vector<int>(kThreads, 0));
  }
}

TEST_CASE("a transfer of pinned memory may be dropped while its stream is busy") {
  sim::Config config;
  config.progress = sim::Progress::manual;
  CopyTest test(config);
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, 64_KiB);
  Buffer pinned(test, Kind::pinned, 64_KiB);
  test.log.submit(stream, "kernel");
  auto* const here = reinterpret_cast<std::byte*>(pinned.data());
  auto* const there = reinterpret_cast<std::byte*>(device.data());
  static_cast<void>(test.copier.start_batch(ranges(here, 2'000, there, 2'500, 1'000, 20), stream));
  CHECK_FALSE(test.log.is_done("kernel"));
  static_cast<void>(test.copier.start_batch(ranges(there, 2'000, here, 2'500, 1'000, 20), stream));
  CHECK_FALSE(test.log.is_done("kernel"));
  stream.ref().sync();
}

TEST_CASE("a transfer into pinned memory through staging memory may be dropped as well" *
          needs_gates()) {
  sim::Config config;
  config.progress = sim::Progress::manual;
  CopyTest test(config);
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, 64_KiB);
  Buffer pinned(test, Kind::pinned, 64_KiB);
  test.log.submit(stream, "kernel");
  auto* const here = reinterpret_cast<std::byte*>(pinned.data());
  auto* const there = reinterpret_cast<std::byte*>(device.data());
  // From one range of the device to small ranges: packed.
  static_cast<void>(test.copier.start_batch(ranges(here, 2'000, there, 1'000, 1'000, 20), stream));
  CHECK(test.copier.counters().copies_staged == 1);
  CHECK_FALSE(test.log.is_done("kernel"));
  stream.ref().sync();
}

}  // namespace batch_order_test
