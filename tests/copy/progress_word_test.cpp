// SPDX-License-Identifier: Apache-2.0
// Staged copies learn of the progress of the device from words, without the driver. No copy waits
// for the threads that call the driver.
#include "copy/staged/progress_word.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/completion_queue.hpp"
#include "berth/device_allocator.hpp"

#include "copy/copy_fixture.hpp"
#include "copy/staged/device_watch.hpp"
#include "copy/staged_fixture.hpp"
#include "support/errors.hpp"
#include "workloads/observed_device.hpp"

namespace progress_word_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64_KiB;
/// One stream holds any number of copies.
struct UnboundedStaged : ManualStaged {
  UnboundedStaged() : ManualStaged(unbounded()) {}

  static sim::Config unbounded() {
    sim::Config config = staged_config(sim::Progress::manual);
    config.queue_entries = 0;
    return config;
  }
};

/// Only a test that fails waits as long.
constexpr std::chrono::seconds kHangs{20};
/// Too large for a bounce block.
constexpr std::size_t kStaged = 2 * kSlot;

/// A copier over a driver with taps; one thread does the host work.
struct TappedCopier : TappedDevice {
  explicit TappedCopier(sim::Progress progress) : TappedDevice(staged_config(progress)) {}

  /// Waits for what other threads do. False where they hang.
  template <class Condition>
  static bool comes_true(const Condition& condition) {
    const auto hangs_at = std::chrono::steady_clock::now() + kHangs;
    while (!condition() && std::chrono::steady_clock::now() < hangs_at) std::this_thread::yield();
    return condition();
  }

  DeviceAllocator memory{context, events, {}};
  PinnedAllocator pinned{registry, {}};
  HostAllocator host{registry, {}};
  CompletionQueue completions{[this](DeviceContext&) -> EventPool& { return events; }};
  Copier copier{registry,
                pinned,
                host,
                completions,
                {.staging_slot_bytes = kSlot, .staging_slots = 4, .workers = 1}};
};

/// A stream that waits for a flag of the host.
class HeldStream {
 public:
  HeldStream(TappedCopier& test, const Stream& stream) : block_(test.pinned.allocate(64)) {
    flag() = 0;
    const ContextScope scope(test.context);
    test.driver.stream_wait_value32(stream.ref().native(),
                                    reinterpret_cast<CUdeviceptr>(block_.data()), 1u,
                                    unsigned{CU_STREAM_WAIT_VALUE_GEQ});
  }
  void release() { flag() = 1; }

 private:
  std::atomic_ref<std::uint32_t> flag() {
    return std::atomic_ref(*static_cast<std::uint32_t*>(block_.data()));
  }

  Allocation block_;
};

/// Blocks the destructor of the owner of a copy, as a driver's lock does that a thread holds which
/// waits for another copy.
class BlockedOwner {
 public:
  /// Starts a copy on `stream` that no thread waits for. Returns when its owner is being destroyed,
  /// by the poller: the copy completes only after the call that starts it has returned.
  BlockedOwner(TappedCopier& test, const Stream& stream, void* target, const Bytes& source) {
    HeldStream held(test, stream);
    const auto destroy = [this](const Bytes*) {
      is_blocked_ = true;
      end_.get_future().wait_for(kHangs);
    };
    test.copier.start(target, source.data(), kStaged, stream,
                      {.keep_alive = std::shared_ptr<const Bytes>(&source, destroy)});
    held.release();
    REQUIRE(test.comes_true([&] { return is_blocked_.load(); }));
  }
  ~BlockedOwner() { end_.set_value(); }
  BlockedOwner(const BlockedOwner&) = delete;
  BlockedOwner& operator=(const BlockedOwner&) = delete;

 private:
  std::atomic<bool> is_blocked_ = false;
  std::promise<void> end_;
};

}  // namespace

TEST_CASE_FIXTURE(ManualStaged, "host work for a copy makes no driver call") {
  for (const Direction direction : {Direction::to_device, Direction::to_host}) {
    const Stream stream = this->stream();
    std::byte* const device = allocate(20 * kSlot);
    Bytes host = pattern(20 * kSlot, 1);
    if (direction == Direction::to_host) fill(device, pattern(20 * kSlot, 2), stream);
    const auto copy = start(direction, host.data(), device, 20 * kSlot, stream);
    const ContextScope scope(context);
    const std::uint64_t before = calls();
    while (!copy->is_complete) {
      while (work.process_piece() || work.poll_progress()) continue;
      if (!copy->is_complete) REQUIRE(simulator.run_next(stream.ref().native()));
    }
    CHECK(calls() == before);
    CHECK((content(device, 20 * kSlot) == host));
  }
}

TEST_CASE_FIXTURE(UnboundedStaged,
                  "without progress few driver queries are made, however many copies are pending") {
  constexpr std::size_t kCopies = 1'000;
  constexpr std::size_t kBytes = 300;
  for (const std::size_t streams_count : {std::size_t{1}, std::size_t{100}}) {
    CAPTURE(streams_count);
    std::vector<Stream> streams;
    while (streams.size() < streams_count) streams.push_back(stream());
    std::byte* const device = allocate(kCopies * kBytes);
    Bytes source = pattern(kCopies * kBytes, 3);
    std::vector<HostWork::CopyPtr> copies;
    std::vector<std::uint64_t> costs;
    for (std::size_t index = 0; index < kCopies; ++index) {
      const std::uint64_t before = calls();
      copies.push_back(start(Direction::to_device, source.data() + index * kBytes,
                             device + index * kBytes, kBytes, streams[index % streams_count]));
      costs.push_back(calls() - before);
    }
    CHECK(costs.back() <= costs[kCopies / 5]);
    while (work.process_piece()) continue;
    const std::uint64_t before = calls();
    for (std::size_t round = 0; round < DeviceWatch::kRoundsPerSecond; ++round) {
      CHECK_FALSE(work.process_piece());
      CHECK_FALSE(work.poll_progress());
      work.query_device(DeviceWatch::kStreamsPerRound);
    }
    CHECK(calls() - before > 0);
    CHECK(calls() - before <=
          500);  // a second, of which a copier's other copies have the other half
    CHECK(work.copies_under_way() == kCopies);
    complete_all();
    CHECK((content(device, kCopies * kBytes) == source));
  }
}

TEST_CASE_FIXTURE(ManualStaged, "a word is read until it arrives, or for the given time") {
  std::uint32_t steps = 0;
  const ProgressWord word(&steps);
  CHECK_FALSE(word.reaches(1, driver, std::chrono::nanoseconds(0)));
  std::promise<void> reading;
  std::thread device([&] {
    reading.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic_ref(steps).store(1);
  });
  reading.set_value();
  CHECK(word.reaches(1, driver, kHangs));
  device.join();
  CHECK(word.reaches(1, driver, std::chrono::nanoseconds(0)));
}

TEST_CASE_FIXTURE(ManualStaged, "streams with pending copies are queried in turn") {
  std::vector<Stream> streams;
  std::vector<HostWork::CopyPtr> copies;
  Bytes source(5 * kSlot);
  std::byte* const device = allocate(5 * kSlot);
  for (std::size_t index = 0; index < 5; ++index) {
    streams.push_back(stream());
    copies.push_back(start(Direction::to_device, source.data() + index * kSlot,
                           device + index * kSlot, 1000, streams.back()));
  }
  while (work.process_piece()) continue;
  // All but the last are done, and no thread reads their words.
  for (std::size_t index = 0; index < 4; ++index) streams[index].ref().sync();
  for (int round = 0; round < 3; ++round) work.query_device(2);
  for (std::size_t index = 0; index < 5; ++index) CHECK(copies[index]->is_complete == (index < 4));
}

TEST_CASE("one copy leaves room in the queue of its stream") {
  StagedTest test(staged_config(sim::Progress::manual));
  const Stream stream = test.stream();
  constexpr std::size_t kAtOnce = 250;
  constexpr std::size_t kChunks = 700;
  std::byte* const device = test.allocate(kChunks * kSlot);
  Bytes source = pattern(kChunks * kSlot, 4);
  std::size_t most = 0;
  const auto start = [&](std::size_t chunks) {
    return test.start(
        {.direction = CopyDirection::to_device,
         .host = std::make_unique<LinearHost>(reinterpret_cast<std::byte*>(source.data())),
         .device = std::make_unique<bench::ObservedDevice>(
             device,
             [&] {
               const ContextScope scope(test.context);
               most = std::max(most, test.simulator.pending_operations(stream.ref().native()));
             }),
         .bytes = chunks * kSlot},
        stream);
  };
  test.log.submit(stream, "before a copy that fits");
  start(kAtOnce);
  CHECK_FALSE(test.log.is_done("before a copy that fits"));
  test.complete_all();
  const auto copy = start(kChunks);  // waits, and does the host work meanwhile
  CHECK(most > StagedCopy::kEntriesMax / 2);
  CHECK(most <= StagedCopy::kEntriesMax);
  test.work.complete(copy);
  CHECK((test.content(device, kChunks * kSlot) == source));
}

TEST_CASE("an owner whose destructor blocks in the driver delays no other copy") {
  TappedCopier test(sim::Progress::eager);
  const Stream stream = test.stream();
  const Bytes source = pattern(40 * kSlot, 6);
  const Allocation device = test.memory.allocate(source.size(), stream);
  const BlockedOwner blocked(test, stream, device.data(), source);
  const Transfer second = test.copier.start(device.data(), source.data(), source.size(), stream);
  auto waiter = std::async(std::launch::async, [&] {  // as the program does, without host work
    const ContextScope scope(test.context);
    test.driver.stream_synchronize(stream.ref().native());
  });
  CHECK(waiter.wait_for(kHangs / 2) == std::future_status::ready);
  second.wait();
}

TEST_CASE("a thread that waits for a copy releases its owner itself") {
  TappedCopier test(sim::Progress::eager);
  const Stream stream = test.stream();
  const Bytes source = pattern(kStaged, 7);
  const Allocation device = test.memory.allocate(source.size(), stream);
  const auto unawaited = std::make_shared<int>();
  {
    const BlockedOwner blocked(test, stream, device.data(), source);
    test.copier.start(device.data(), source.data(), kStaged, stream, {.keep_alive = unawaited});
    const auto kept = std::make_shared<int>();
    auto waiter = std::async(std::launch::async, [&] {
      test.copier.start(device.data(), source.data(), kStaged, stream, {.keep_alive = kept}).wait();
    });
    CHECK(waiter.wait_for(kHangs / 2) == std::future_status::ready);
    CHECK(kept.use_count() == 1);
    CHECK(unawaited.use_count() == 2);
  }
  CHECK(test.comes_true([&] { return unawaited.use_count() == 1; }));
}

TEST_CASE("an owner is released although the poller has become idle") {
  StagedTest test(staged_config(sim::Progress::eager));
  const Stream stream = test.stream();
  Bytes source(kStaged);
  std::function<void()> wake;
  HostWork work(
      [](StagedCopy& copy) {  // the copy is not pending any more: the poller falls asleep
        copy.release();
        std::this_thread::sleep_for(3 * DeviceWatch::kPeriod);
      },
      [&] { wake(); });
  DeviceWatch watch({&work});
  wake = [&] { watch.wake_for_owner(); };
  REQUIRE(watch.start(test.driver));
  auto owner = std::make_shared<int>();
  const std::weak_ptr<int> watched = owner;
  const auto copy = std::make_shared<StagedCopy>(
      stream,
      StagedRoute{.direction = CopyDirection::to_device,
                  .host = std::make_unique<LinearHost>(reinterpret_cast<std::byte*>(source.data())),
                  .device = std::make_unique<LinearDevice>(test.allocate(kStaged)),
                  .bytes = kStaged,
                  .keep_alive = std::move(owner)},
      test.memory.try_take(kStaged).value());
  work.start(copy, test.lane_of(stream), 0, test.events);
  watch.wake();
  while (!copy->has_ended) {
    while (work.process_piece()) continue;
    work.poll_progress();
  }
  CHECK(TappedCopier::comes_true([&] { return watched.expired(); }));
}

TEST_CASE("a thread that is blocked in a driver query delays no gate") {
  TappedCopier test(sim::Progress::eager);
  const Stream stream = test.stream();
  const Bytes source = pattern(40 * kSlot, 5);
  Bytes back(source.size());
  const Allocation device = test.memory.allocate(source.size(), stream);
  // As behind a driver's lock, which a thread holds that waits for the copies.
  std::promise<void> is_complete;
  std::shared_future<void> end = is_complete.get_future().share();
  test.tap.before(DriverCall::event_query, [end] { end.wait_for(kHangs); });
  const Transfer in = test.copier.start(device.data(), source.data(), source.size(), stream);
  const Transfer out = test.copier.start(back.data(), device.data(), source.size(), stream);
  auto waiter = std::async(std::launch::async, [&] { stream.ref().sync(); });
  CHECK(waiter.wait_for(kHangs / 2) == std::future_status::ready);
  is_complete.set_value();
  waiter.get();
  CHECK((back == source));
}

TEST_CASE("a failed device is detected without a wait and without a progress word") {
  TappedCopier test(sim::Progress::manual);
  const Stream stream = test.stream();
  Bytes source(10 * kSlot);
  const Allocation device = test.memory.allocate(source.size(), stream);
  std::vector<Transfer> transfers;
  for (int count = 0; count < 3; ++count)
    transfers.push_back(test.copier.start(device.data(), source.data(), source.size(), stream));
  for (const DriverCall call : {DriverCall::event_query, DriverCall::mem_get_info})
    test.tap.refuse_all(call, CUDA_ERROR_LAUNCH_FAILED);
  for (const Transfer& transfer : transfers) {
    CHECK(test.comes_true([&] { return transfer.is_done(); }));
    CHECK_THROWS_AS(transfer.wait(), DriverError);
  }
  for (const DriverCall call : {DriverCall::event_query, DriverCall::mem_get_info})
    test.tap.allow(call);
  test.simulator.run_all();
}

TEST_CASE(
    "while a copy that cannot be submitted waits for its stream, others can be started there") {
  TappedCopier test(sim::Progress::eager);
  const Stream stream = test.stream();
  HeldStream held(test, stream);
  const Bytes source = pattern(30 * kSlot, 6);
  const Allocation device = test.memory.allocate(source.size(), stream);
  std::promise<void> has_failed;
  test.tap.refuse(DriverCall::stream_write_value32, CUDA_ERROR_UNKNOWN, 3);
  test.tap.before(DriverCall::event_synchronize, [&] { has_failed.set_value(); });
  auto failing = std::async(std::launch::async, [&] {
    message_of<DriverError>(
        [&] { test.copier.start(device.data(), source.data(), source.size(), stream); });
  });
  CHECK(has_failed.get_future().wait_for(kHangs) == std::future_status::ready);
  auto starting = std::async(std::launch::async, [&] {
    return test.copier.start(device.data(), source.data(), source.size(), stream);
  });
  CHECK(starting.wait_for(kHangs / 2) == std::future_status::ready);
  CHECK(failing.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  held.release();
  failing.get();
  starting.get().wait();
  CHECK((test.simulator.peek(address_of(device.data()), source.size()) == source));
}

}  // namespace progress_word_test
