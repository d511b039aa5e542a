// SPDX-License-Identifier: Apache-2.0
// Copies of pageable memory while others hold all staging memory: those of one stream take turns,
// and none waits for another stream.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "copy/copy_fixture.hpp"
#include "support/thinned.hpp"

namespace staging_turns_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64_KiB;
constexpr std::size_t kSlots = 4;
constexpr std::size_t kLarge = 9 * kSlot + 5;
constexpr std::size_t kSizes[] = {kSlot + 1, 2 * kSlot, kLarge, 7 * kSlot};
/// Of the sizes: a hundred copies of these leave room in a stream's queue of 1,024 entries.
constexpr std::size_t kFewEntries = 2;
constexpr std::size_t kSmall = 3000;  // takes no slot

sim::Config with(sim::Progress progress) {
  sim::Config config;
  config.progress = progress;
  return config;
}

CopierOptions few_slots() {
  return {.staging_slot_bytes = kSlot, .staging_slots = kSlots, .workers = 2};
}

/// A copy with memory of its own on both sides.
class OneCopy {
 public:
  OneCopy(CopyTest& test, bool to_device, std::size_t bytes, std::uint64_t seed)
      : content_(pattern(bytes, seed)),
        to_device_(to_device),
        here_(test, Kind::pageable, bytes),
        there_(test, Kind::device, bytes),
        copier_(test.copier) {
    (to_device ? here_ : there_).write(content_);
  }

  void start(StreamRef stream) {
    transfer_ = to_device_ ? copier_.start(there_.data(), here_.data(), content_.size(), stream)
                           : copier_.start(here_.data(), there_.data(), content_.size(), stream);
  }
  [[nodiscard]] const Transfer& transfer() const { return transfer_; }
  [[nodiscard]] Transfer& transfer() { return transfer_; }
  [[nodiscard]] bool has_arrived() const {
    return (to_device_ ? there_ : here_).read() == content_;
  }

 private:
  const Bytes content_;
  const bool to_device_;
  Buffer here_;
  Buffer there_;
  Copier& copier_;
  Transfer transfer_;
};

/// A word that a stream waits for: as work that ends when the program says so.
class Flag {
 public:
  explicit Flag(CopyTest& test)
      : test_(test),
        block_(test.runtime->pinned_memory().allocate(64)),
        word_(*static_cast<std::uint32_t*>(block_.data())) {
    word_.store(0);
  }
  void hold(StreamRef stream) {
    const DeviceGuard guard(test_.runtime->devices(), stream.device());
    REQUIRE(sim::berth_sim_cuStreamWaitValue32(stream.native(),
                                               reinterpret_cast<CUdeviceptr>(block_.data()), 1,
                                               CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
  }
  void raise() { word_.store(1); }

 private:
  CopyTest& test_;
  Allocation block_;
  std::atomic_ref<std::uint32_t> word_;
};

/// Of both directions in turn, and all sizes.
std::deque<OneCopy> make_copies(CopyTest& test, std::size_t count,
                                std::size_t sizes = std::size(kSizes)) {
  std::deque<OneCopy> copies;
  for (std::size_t index = 0; index < count; ++index)
    copies.emplace_back(test, index % 3 != 0, kSizes[index % sizes], index);
  return copies;
}

}  // namespace

TEST_CASE("pending copies smaller than a slot hold memory of their own size" * needs_gates()) {
  constexpr std::size_t kBytes = 300'000;
  constexpr std::size_t kCopies = 60;
  CopyTest test(with(sim::Progress::manual));
  const Stream busy = test.stream();
  std::deque<OneCopy> copies;
  for (std::size_t copy = 0; copy < kCopies; ++copy)
    copies.emplace_back(test, copy % 2 == 0, kBytes, copy);
  Flag flag(test);
  flag.hold(busy);
  for (OneCopy& copy : copies) copy.start(busy);
  const CopyCounters counted = test.copier.counters();
  CHECK(counted.staging_bytes >= kCopies * kBytes);
  CHECK(counted.staging_bytes <= kCopies * 512_KiB);
  flag.raise();
  for (const OneCopy& copy : copies) {
    copy.transfer().wait();
    CHECK(copy.has_arrived());
  }
  CHECK(test.copier.counters().staging_bytes == 0);
}

TEST_CASE("a copy on an idle stream does not wait for a hundred that are pending on another" *
          needs_gates()) {
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual, sim::Progress::random}) {
    CAPTURE(int(progress));
    CopyTest test(with(progress), few_slots());
    const Stream busy = test.stream();
    const Stream idle = test.stream();
    std::deque<OneCopy> pending = make_copies(test, 100, kFewEntries);
    pending.emplace_back(test, false, kSmall, 1);
    std::deque<OneCopy> others = make_copies(test, 8);
    others.emplace_back(test, false, kSmall, 2);
    others.emplace_back(test, true, kLarge, 3);
    Flag flag(test);
    flag.hold(busy);
    for (OneCopy& copy : pending) copy.start(busy);
    for (OneCopy& copy : others) copy.start(idle);
    CHECK(test.copier.counters().staging_waits == 0);
    CHECK(test.copier.counters().copies_by_driver == 0);
    for (const OneCopy& copy : others) {
      copy.transfer().wait();
      CHECK(copy.has_arrived());
    }
    for (const OneCopy& copy : pending) CHECK_FALSE(copy.transfer().is_done());
    flag.raise();
    // The last first: its wait does for the others what the host has to do.
    pending.back().transfer().wait();
    for (const OneCopy& copy : pending) {
      copy.transfer().wait();
      CHECK(copy.has_arrived());
    }
  }
}

TEST_CASE("with all staging memory in use the driver performs a stream's first copy" *
          needs_gates()) {
  CopyTest test(with(sim::Progress::manual), few_slots());
  std::vector<Stream> streams;
  for (int count = 0; count < 9; ++count) streams.push_back(test.stream());
  std::deque<OneCopy> copies = make_copies(test, streams.size());
  for (std::size_t index = 0; index < streams.size(); ++index) {
    test.log.submit(streams[index], fmt::format("kernel {}", index));
    CHECK(test.copier.counters().copies_by_driver == 0);
    copies[index].start(streams[index]);
    if (index == 7) break;  // two have two of the four slots each, and six two more
  }
  OneCopy& last = copies.back();
  last.start(streams.back());
  CHECK(test.copier.counters().copies_by_driver == 1);
  CHECK(test.copier.counters().staging_waits == 0);
  for (std::size_t index = 0; index < 8; ++index)
    CHECK_FALSE(test.log.is_done(fmt::format("kernel {}", index)));
  for (const OneCopy& copy : copies) {
    copy.transfer().wait();
    CHECK(copy.has_arrived());
  }
}

TEST_CASE("a copy that is cancelled before its turn leaves the others alone" * needs_gates()) {
  for (const std::size_t cancelled : {std::size_t{0}, std::size_t{2}, std::size_t{5}}) {
    CAPTURE(cancelled);
    CopyTest test(with(sim::Progress::manual), few_slots());
    const Stream stream = test.stream();
    test.log.submit(stream, "kernel");
    std::deque<OneCopy> copies = make_copies(test, 6);
    for (OneCopy& copy : copies) copy.start(stream);
    copies[cancelled].transfer().cancel();
    CHECK_FALSE(test.log.is_done("kernel"));
    for (std::size_t index = copies.size(); index-- > 0;) {
      CAPTURE(index);
      if (index == cancelled && cancelled > 0) {
        CHECK_THROWS_AS(copies[index].transfer().wait(), Cancelled);
        continue;
      }
      if (index == cancelled) {  // its source may have been read by then
        try {
          copies[index].transfer().wait();
        } catch (const Cancelled&) {
          continue;
        }
      }
      copies[index].transfer().wait();
      CHECK(copies[index].has_arrived());
    }
    CHECK(stream.ref().is_done());
  }
}

TEST_CASE("a copy that fails while it is submitted leaves those before and after it alone") {
  Thinned thinned(5);
  for (const auto progress : {sim::Progress::manual, sim::Progress::random}) {
    for (const char* const call : {"cuEventRecord", "cuStreamWaitValue32"}) {
      for (int nth = 1; nth < 90; nth += 4) {
        if (thinned.skips()) continue;
        CAPTURE(int(progress));
        CAPTURE(call);
        CAPTURE(nth);
        sim::Config config = with(progress);
        config.faults = sim::FaultPlan::parse(fmt::format("{}@{}=unknown", call, nth));
        CopyTest test(config, few_slots());
        test.errors_expected = true;
        const Stream stream = test.stream();
        std::deque<OneCopy> copies = make_copies(test, 8);
        std::vector<OneCopy*> started;
        int failed = 0;
        for (OneCopy& copy : copies) {
          try {
            copy.start(stream);
            started.push_back(&copy);
          } catch (const DriverError&) {
            ++failed;
          }
        }
        CHECK(failed <= 1);
        for (OneCopy* const copy : started) {
          copy->transfer().wait();
          CHECK(copy->has_arrived());
        }
      }
    }
  }
}

TEST_CASE("copies of several threads on one stream take their turns in its order") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::random}) {
    CopyTest test(with(progress), few_slots());
    const Stream stream = test.stream();
    std::vector<std::deque<OneCopy>> copies;
    for (int count = 0; count < 4; ++count) copies.push_back(make_copies(test, 20));
    std::vector<std::thread> threads;
    for (std::deque<OneCopy>& own : copies) {
      threads.emplace_back([&own, &stream] {
        for (OneCopy& copy : own) copy.start(stream);
        for (const OneCopy& copy : own) copy.transfer().wait();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::deque<OneCopy>& own : copies) {
      for (const OneCopy& copy : own) CHECK(copy.has_arrived());
    }
    CHECK(test.copier.counters().staging_waits == 0);
  }
}

TEST_CASE("copies on per-thread default streams of two threads do not wait for each other" *
          needs_gates()) {
  CopyTest test(with(sim::Progress::eager), few_slots());
  const Stream busy = test.stream();
  const StreamRef own = test.runtime->per_thread_default_stream(Device::cuda(0));
  std::deque<OneCopy> pending = make_copies(test, 6);
  OneCopy here(test, true, kLarge, 7);
  OneCopy there(test, true, kLarge, 8);
  Flag flag(test);
  flag.hold(busy);
  flag.hold(own);
  for (OneCopy& copy : pending) copy.start(busy);
  here.start(own);
  std::thread([&] {
    there.start(own);
    const auto hangs_at = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!there.transfer().is_done() && std::chrono::steady_clock::now() < hangs_at)
      std::this_thread::yield();
    CHECK(there.transfer().is_done());
  }).join();
  CHECK_FALSE(here.transfer().is_done());
  flag.raise();
  for (const OneCopy* const copy : {&here, &there, &pending.back()}) {
    copy->transfer().wait();
    CHECK(copy->has_arrived());
  }
}

TEST_CASE("copies of destroyed streams keep their turns, even if a handle is reused") {
  CopyTest test(with(sim::Progress::manual), few_slots());
  std::deque<OneCopy> copies = make_copies(test, 12);
  for (std::size_t index = 0; index < copies.size(); ++index) {
    const Stream stream = test.stream();
    test.log.submit(stream, fmt::format("kernel {}", index));
    copies[index].start(stream);
  }
  for (const OneCopy& copy : copies) {
    copy.transfer().wait();
    CHECK(copy.has_arrived());
  }
}

}  // namespace staging_turns_test
