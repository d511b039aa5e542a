// SPDX-License-Identifier: Apache-2.0
// Actions of other threads while the allocator calls the driver: an action that runs between two
// driver calls stands for the other thread, so every interleaving is deterministic.
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"
#include "support/errors.hpp"
#include "support/meanwhile.hpp"
#include "support/second_thread.hpp"

namespace caching_allocator_race_test {

using namespace berth;
using namespace berth::test;

namespace {

/// A block of 8 MiB cached for stream `busy`, and one that is live on it, apart from each other.
struct TwoBlocks : AllocatorFixture {
  TwoBlocks() { free(cached); }
  /// The other thread: submits work to `busy` and frees the live block behind it.
  void use_and_free() { use_and_free(late); }
  void use_and_free(void* data) {
    log.submit(busy, "late work");
    // A thread that keeps nothing yet gives it to the heap.
    std::thread([&] { allocator->deallocate(data); }).join();
  }

  Stream busy = stream();
  Stream asking = stream();
  void* cached = allocate(8_MiB, busy);
  void* between = allocate(2_MiB, busy);
  void* late = allocate(8_MiB, busy);
};

}  // namespace

TEST_CASE_FIXTURE(TwoBlocks, "memory freed after a stream was found idle does not count as idle") {
  tap.after(DriverCall::stream_query, [this] { use_and_free(); });
  CHECK(allocate(8_MiB, asking) == cached);
  CHECK(counters().blocks_passed_on == 1);
  CHECK_FALSE(runs_behind(asking, "late work"));
  void* const other = allocate(8_MiB, asking);
  CHECK(other != late);
  CHECK_FALSE(runs_behind(asking, "late work"));
}

TEST_CASE_FIXTURE(TwoBlocks,
                  "a better fit that was freed after a stream was found idle is left alone") {
  void* const filler = allocate(8_MiB, busy);
  REQUIRE(filler == cached);
  void* const better = allocate(6_MiB, busy);
  free(filler);
  bool was_asked = false;
  tap.after(DriverCall::stream_query, [&] {
    was_asked = true;
    use_and_free(better);
  });
  CHECK(allocate(6_MiB, asking) != better);
  CHECK(was_asked);
  CHECK_FALSE(runs_behind(asking, "late work"));
}

TEST_CASE_FIXTURE(TwoBlocks, "memory freed after a stream was waited for does not count as idle") {
  log.submit(busy, "early work");
  tap.after(DriverCall::event_synchronize, [this] { use_and_free(); });
  CHECK(allocator->trim(0) == 8_MiB);
  allocator->validate();
  CHECK(log.is_done("early work"));
  CHECK_FALSE(log.is_done("late work"));
  CHECK(allocate(8_MiB, busy) == late);
}

TEST_CASE_FIXTURE(
    TwoBlocks, "a wait covers memory freed before its event was recorded, and none freed later") {
  log.submit(busy, "early work");
  void* const rest = allocate(46_MiB, asking);  // no room to grow
  REQUIRE(counters().bytes_reserved.current == kDeviceBytes);
  tap.after(DriverCall::event_record, [this] { use_and_free(); });
  CHECK(allocate(8_MiB, asking) == cached);
  CHECK(counters().stream_waits_inserted == 1);
  CHECK(runs_behind(asking, "early work"));
  for (const char* step : {"early work", "the event behind it"}) {
    CAPTURE(step);
    REQUIRE(simulator.run_next(busy.ref().native()));
  }
  run_stream(asking);
  CHECK(log.is_done("behind early work"));
  CHECK_FALSE(log.is_done("late work"));
  CHECK(allocate(8_MiB, asking) == late);
  CHECK(counters().stream_waits_inserted == 2);
  CHECK(runs_behind(asking, "late work"));
  free(rest);
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "an event covers the deferred frees before it, and none that come while it is recorded") {
  const Stream own = stream();
  const Stream user = stream();
  void* const early = allocate(30_MiB, own);
  void* const late = allocate(30_MiB, own);
  allocator->record_stream(early, user);
  allocator->record_stream(late, user);
  log.submit(user, "early use");
  tap.after(DriverCall::event_record, [&] {
    log.submit(user, "late use");
    tap.refuse(DriverCall::event_record, CUDA_ERROR_UNKNOWN);  // or this free would mark both
    allocator->deallocate(late);
  });
  free(early);
  CHECK(counters().blocks_pending.current == 2);
  while (!log.is_done("early use")) REQUIRE(simulator.run_next(user.ref().native()));
  CHECK(allocate(30_MiB, own) == early);
  CHECK(counters().blocks_pending.current == 1);
  CHECK_FALSE(log.is_done("late use"));
  run_stream(user);
  CHECK(allocate(30_MiB, own) == late);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "memory freed during a growth is used, and the new memory is cached") {
  const Stream own = stream();
  void* const first = allocate(8_MiB, own);
  tap.before(DriverCall::mem_create, [&] { allocator->deallocate(first); });
  void* const second = allocate(6_MiB, own);
  CHECK(second != nullptr);
  CHECK(counters().bytes_reserved.current == 14_MiB);
  CHECK(counters().blocks_allocated.current == 1);
  free(second);
  CHECK(allocate(14_MiB, own) == first);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "if another thread takes the growth's neighbor, memory grows once more") {
  const Stream own = stream();
  void* const first = allocate(4_MiB, own);
  free(first);
  void* theirs = nullptr;
  tap.before(DriverCall::mem_create, [&] { theirs = allocator->allocate(4_MiB, own); });
  void* const large = allocate(10_MiB, own);
  CHECK(theirs == first);
  CHECK(large != nullptr);
  CHECK(counters().segments_mapped == 3);
  CHECK(counters().allocations_grown == 2);
  CHECK(counters().bytes_reserved.current == 14_MiB);
}

TEST_CASE("a limit lowered during a growth applies from the next growth on") {
  AllocatorFixture test({.bytes_reserved_max = 16_MiB});
  const Stream own = test.stream();
  void* const first = test.allocate(8_MiB, own);
  test.tap.before(DriverCall::mem_create, [&] { test.budget.set_limits({.max = 12_MiB}); });
  void* const second = test.allocate(4_MiB, own);
  CHECK(second != nullptr);
  message_of<OutOfMemory>([&] { return test.allocate(2_MiB, own); });
  CHECK(test.counters().bytes_reserved.peak == 12_MiB);
  test.free(first);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "memory that is being returned to the driver is not allocated") {
  const Stream own = stream();
  void* const first = allocate(8_MiB, own);
  free(first);
  bool asked = false;
  tap.before(DriverCall::mem_unmap, [&] {
    asked = true;
    CHECK(allocator->look_up(first).block == nullptr);
    message_of<InvalidArgument>([&] {
      allocator->deallocate(first);
      return 0;
    });
  });
  CHECK(allocator->trim(0) == 8_MiB);
  CHECK(asked);
  allocator->validate();
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a block freed while its stream retires is behind the stream's last work") {
  const Stream next = stream();
  std::optional<Stream> gone(stream());
  void* const data = allocate(60_MiB, *gone);
  log.submit(*gone, "last work");
  SUBCASE("before the last work is marked") {
    tap.before(DriverCall::event_record, [&] { allocator->deallocate(data); });
    gone.reset();
  }
  SUBCASE("after the last work is marked") {
    tap.after(DriverCall::event_record, [&] { allocator->deallocate(data); });
    gone.reset();
  }
  allocator->validate();
  CHECK(allocate(60_MiB, next) == data);
  CHECK(runs_behind(next, "last work"));
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a use freed while the using stream retires awaits the stream's last work") {
  const Stream own = stream();
  std::optional<Stream> user(stream());
  void* const data = allocate(40_MiB, own);
  allocator->record_stream(data, *user);
  log.submit(*user, "use");
  tap.after(DriverCall::event_record, [&] { allocator->deallocate(data); });
  user.reset();
  allocator->validate();
  CHECK(counters().blocks_pending.current == 1);
  CHECK(allocate(20_MiB, own) != data);
  CHECK_FALSE(log.is_done("use"));
  simulator.run_all();
  CHECK(allocate(40_MiB, own) == data);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a stream destroyed after a wait may have had more work than was waited for") {
  std::optional<Stream> gone(stream());
  const Stream user = stream();
  const Stream next = stream();
  void* const cached = allocate(8_MiB, *gone);
  void* const live = allocate(8_MiB, *gone);
  void* const used = allocate(8_MiB, user);
  free(cached);
  allocator->record_stream(used, *gone);
  log.submit(*gone, "early work");
  tap.after(DriverCall::event_synchronize, [&] {
    log.submit(*gone, "late work");
    gone.reset();
  });
  CHECK(allocator->trim(0) == 8_MiB);
  CHECK(log.is_done("early work"));
  REQUIRE_FALSE(log.is_done("late work"));
  SUBCASE("its own blocks") {
    free(live);
    void* const data = allocate(8_MiB, next);
    CHECK((data != live || runs_behind(next, "late work")));
    free(used);
  }
  SUBCASE("blocks that it uses") {
    free(used);
    CHECK(counters().blocks_pending.current == 1);
    free(live);
  }
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a stream does not go away while a free on another thread marks its last use") {
  const Stream own = stream();
  std::optional<Stream> user(stream());
  void* const data = allocate(8_MiB, own);
  allocator->record_stream(data, *user);
  Meanwhile goes([&] { user.reset(); });
  tap.before(DriverCall::event_record, [&] { goes.start(); });
  free(data);
  CHECK_FALSE(goes.was_done());
  goes.join();
  CHECK(counters().blocks_pending.current <= 1);
  CHECK(reports.all().empty());
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a stream that cannot be queried does not go away during a free that marks it") {
  const Stream own = stream();
  const Stream other = stream();
  std::optional<Stream> user(stream());
  void* const data = allocate(8_MiB, own);
  void* const cached = allocate(8_MiB, *user);
  free(cached);
  allocator->record_stream(data, *user);
  Meanwhile goes([&] { user.reset(); });
  std::function<void()> fails;
  SUBCASE("when it ends") {
    fails = [&] { tap.refuse_all(DriverCall::stream_is_capturing, CUDA_ERROR_UNKNOWN); };
  }
  SUBCASE("in a request of another thread") {
    fails = [&] {
      tap.refuse(DriverCall::stream_query, CUDA_ERROR_INVALID_HANDLE);
      std::thread([&] { CHECK(allocator->allocate(8_MiB, other) != nullptr); }).join();
      REQUIRE(reports.mention("destroyed without retire_stream()"));
    };
  }
  tap.before(DriverCall::event_record, [&] {
    fails();
    goes.start();
  });
  free(data);
  CHECK_FALSE(goes.was_done());
  goes.join();
  tap.allow(DriverCall::stream_is_capturing);
  CHECK_FALSE(reports.mention("could not be recorded"));
  CHECK(counters().blocks_pending.current <= 1);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "memory grows while the end of a stream waits for its last use to be marked") {
  const Stream own = stream();
  std::optional<Stream> user(stream());
  void* const data = allocate(8_MiB, own);
  allocator->record_stream(data, *user);
  Meanwhile goes([&] { user.reset(); });
  Meanwhile grows([&] { CHECK(allocator->allocate(20_MiB, own) != nullptr); });
  tap.before(DriverCall::event_record, [&] {  // as if the queue of `user` had no room
    goes.start();
    grows.start();
  });
  free(data);
  CHECK_FALSE(goes.was_done());
  CHECK(grows.was_done());
  goes.join();
  grows.join();
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a use that was waited for may have completed and its stream been forgotten") {
  const Stream own = stream();
  std::optional<Stream> user(stream());
  void* const data = allocate(40_MiB, own);
  allocator->record_stream(data, *user);
  log.submit(*user, "use");
  free(data);
  tap.after(DriverCall::event_synchronize, [&] {
    user.reset();
    simulator.run_all();
    allocator->trim(0);
    std::vector<Stream> many;  // streams are forgotten where there are many
    for (int index = 0; index < 64; ++index) {
      many.push_back(stream());
      allocator->deallocate(allocator->allocate(1_MiB, many.back()));
    }
  });
  CHECK(allocate(60_MiB, own) != nullptr);
  CHECK(log.is_done("use"));
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "blocks that another thread frees are reused, each with the newly requested bytes") {
  constexpr std::size_t kBlocks = 300;
  const Stream own = stream();
  SecondThread other;
  std::vector<void*> blocks;
  for (const std::size_t bytes : {1000, 700}) {
    CAPTURE(bytes);
    while (blocks.size() < kBlocks) blocks.push_back(allocator->allocate(bytes, own));
    CHECK(counters().bytes_requested.current == kBlocks * bytes);
    CHECK(counters().segments_mapped == 1);
    allocator->validate();
    other.run([&] {
      for (void* data : blocks) {
        allocator->deallocate(data);
        if (data == blocks.front()) allocator->validate();  // counts, and sees what the thread does
      }
    });
    blocks.clear();
  }
}

}  // namespace caching_allocator_race_test
