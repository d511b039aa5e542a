// SPDX-License-Identifier: Apache-2.0
// sleep() waits for the device, and sleep() and wake() copy content, without holding a lock:
// actions of other threads meanwhile.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"
#include "support/foreign_stream.hpp"
#include "support/meanwhile.hpp"

namespace sleep_threads_test {

using namespace berth;
using namespace berth::test;

namespace {

struct SleepingTest : AllocatorFixture {
  std::size_t sleep(SleepContent content = SleepContent::discard) {
    return allocator->sleep(context, content);
  }
  void wake() { allocator->wake(context); }
};

/// A second sleep() that waits for the device until it may go on.
class SecondSleep {
 public:
  explicit SecondSleep(SleepingTest& test) {
    test.tap.before(DriverCall::ctx_synchronize, [this] {
      std::unique_lock lock(mutex_);
      waits_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return may_go_on_; });
    });
    thread_ = std::thread([&test] { test.sleep(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waits_; });
  }
  void go_on() {
    {
      const std::lock_guard lock(mutex_);
      may_go_on_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool waits_ = false;
  bool may_go_on_ = false;
  std::thread thread_;
};

/// Another thread, from the moment when this thread waits for its next copy of content.
class DuringCopy : public Meanwhile {
 public:
  DuringCopy(SleepingTest& test, std::function<void()> task) : Meanwhile(std::move(task)) {
    test.tap.before(DriverCall::stream_synchronize, [this] {
      has_started_ = true;
      start();
    });
  }
  /// Whether it waited for the copy.
  [[nodiscard]] bool was_blocked() {
    REQUIRE(has_started_);
    join();
    return !was_done();
  }

 private:
  bool has_started_ = false;
};

}  // namespace

TEST_CASE_FIXTURE(SleepingTest, "wake() during the wait of sleep() cancels the sleep") {
  const Stream own = stream();
  std::vector<void*> row;
  for (int count = 0; count < 32; ++count) row.push_back(allocate(2_MiB, own));
  for (const std::size_t index : {0U, 2U, 4U, 6U}) free(row[index]);
  void* const joined = allocate(7_MiB, own);  // mapped by a window
  REQUIRE(counters().page_remaps > 0);
  const std::size_t reserved = budget.reserved();
  meanwhile(DriverCall::ctx_synchronize, [this] { wake(); });
  CHECK(sleep(SleepContent::keep) == 0);
  CHECK_FALSE(allocator->is_asleep());
  CHECK(budget.reserved() == reserved);
  CHECK(simulator.device_bytes_used(0) == reserved);
  CHECK(reports.all().empty());
  free(joined);
  CHECK(sleep(SleepContent::keep) == reserved);
  wake();
  CHECK(simulator.device_bytes_used(0) == reserved);
}

TEST_CASE_FIXTURE(SleepingTest,
                  "a sleep() cancelled by wake() is not continued by the next sleep()") {
  const Stream own = stream();
  REQUIRE(allocate(40_MiB, own) != nullptr);
  std::optional<SecondSleep> second;
  bool was_done = true;
  tap.after(DriverCall::ctx_synchronize, [&] {
    std::thread([this] { wake(); }).join();
    log.submit(own, "work between");
    second.emplace(*this);
    tap.before(DriverCall::mem_unmap, [&] { was_done = log.is_done("work between"); });
  });
  CHECK(sleep() == 0);
  second->go_on();
  CHECK(was_done);
  CHECK(budget.reserved() == 0);
  CHECK(counters().bytes_asleep.current == 40_MiB);
  wake();
  CHECK(budget.reserved() == 40_MiB);
  CHECK(counters().bytes_asleep.current == 0);
  CHECK(reports.all().empty());
}

TEST_CASE_FIXTURE(SleepingTest, "a failing sleep() does not affect a later sleep()") {
  const Stream own = stream();
  REQUIRE(allocate(40_MiB, own) != nullptr);
  tap.refuse(DriverCall::ctx_synchronize, CUDA_ERROR_UNKNOWN);
  meanwhile(DriverCall::ctx_synchronize, [this] {
    wake();
    CHECK(sleep() == 40_MiB);
  });
  CHECK_THROWS_AS(sleep(), DriverError);
  CHECK(allocator->is_asleep());
  wake();
  CHECK(budget.reserved() == 40_MiB);
}

TEST_CASE_FIXTURE(SleepingTest,
                  "trim() returns nothing of a pool that fell asleep during its wait") {
  const Stream own = stream();
  free(allocate(40_MiB, own));
  log.submit(own, "work");
  meanwhile(DriverCall::event_synchronize, [this] { CHECK(sleep() == 40_MiB); });
  CHECK(allocator->trim(0) == 0);
  CHECK(allocator->is_asleep());
  CHECK(counters().bytes_asleep.current == 40_MiB);
  wake();
  CHECK(allocator->trim(0) == 40_MiB);
}

TEST_CASE_FIXTURE(SleepingTest,
                  "other threads use streams, free and inspect while a pool copies its content") {
  const Stream own = stream();
  REQUIRE(allocate(20_MiB, own) != nullptr);
  for (const bool wakes : {false, true}) {
    CAPTURE(wakes);
    std::optional<Stream> ending = stream();
    const StreamRef foreign = disown(stream());
    void* const marked = allocate(2_MiB, own);
    void* const freed = allocate(2_MiB, *ending);
    if (wakes) CHECK(sleep(SleepContent::keep) > 0);
    DuringCopy during(*this, [&] {
      allocator->record_stream(marked, foreign);
      allocator->deallocate(marked);
      allocator->record_stream(freed, own);
      allocator->deallocate(freed);
      ending.reset();
      const std::uint64_t asleep = counters().bytes_asleep.current;
      CHECK(allocator->trim(0) == 0);
      CHECK(counters().bytes_asleep.current == asleep);
      CHECK((asleep > 0) == wakes);
      CHECK(allocator->snapshot().counters.blocks_allocated.current == 1);
      allocator->validate();
      CHECK_THROWS_AS(allocator->allocate(1_MiB, own), InvalidArgument);
    });
    if (wakes) {
      wake();
    } else {
      sleep(SleepContent::keep);
    }
    CHECK_FALSE(during.was_blocked());
    if (!wakes) wake();
    destroy_disowned(foreign);
  }
  CHECK_FALSE(allocator->is_asleep());
}

TEST_CASE_FIXTURE(SleepingTest, "wake() waits while sleep() copies the content") {
  const Stream own = stream();
  REQUIRE(allocate(40_MiB, own) != nullptr);
  DuringCopy during(*this, [this] { wake(); });
  const std::size_t bytes = sleep(SleepContent::keep);
  CHECK(during.was_blocked());
  CHECK((bytes == 0 || bytes == 40_MiB));  // whichever thread came first after the copy
  CHECK_FALSE(allocator->is_asleep());
  CHECK(budget.reserved() == 40_MiB);
  CHECK(simulator.device_bytes_used(0) == 40_MiB);
}

TEST_CASE_FIXTURE(SleepingTest, "sleep() waits while wake() copies the content") {
  const Stream own = stream();
  REQUIRE(allocate(40_MiB, own) != nullptr);
  CHECK(sleep(SleepContent::keep) == 40_MiB);
  DuringCopy during(*this, [this] { CHECK(sleep() == 40_MiB); });
  wake();
  CHECK(during.was_blocked());
  CHECK(allocator->is_asleep());
  CHECK(budget.reserved() == 0);
  wake();
}

TEST_CASE_FIXTURE(SleepingTest, "the end of a pool waits while wake() copies its content") {
  const Stream own = stream();
  REQUIRE(allocate(40_MiB, own) != nullptr);
  CHECK(sleep(SleepContent::keep) == 40_MiB);
  DuringCopy during(*this, [this] { allocator->close(); });
  wake();
  CHECK(during.was_blocked());
  CHECK_FALSE(allocator->is_asleep());
}

TEST_CASE_FIXTURE(SleepingTest,
                  "a wake() whose copy fails leaves the pool asleep for another one") {
  const Stream own = stream();
  REQUIRE(allocate(40_MiB, own) != nullptr);
  CHECK(sleep(SleepContent::keep) == 40_MiB);
  DuringCopy during(*this, [this] { wake(); });
  tap.refuse(DriverCall::stream_synchronize, CUDA_ERROR_UNKNOWN);
  CHECK_THROWS_AS(wake(), DriverError);
  CHECK(during.was_blocked());
  CHECK_FALSE(allocator->is_asleep());
  CHECK(budget.reserved() == 40_MiB);
}

}  // namespace sleep_threads_test
