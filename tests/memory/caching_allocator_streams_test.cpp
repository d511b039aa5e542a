// SPDX-License-Identifier: Apache-2.0
// Which work freed memory waits for: uses by other streams, and destroyed streams.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"

namespace caching_allocator_streams_test {

using namespace berth;
using namespace berth::test;

TEST_CASE_FIXTURE(AllocatorFixture,
                  "recording a block's own stream, by either name, defers nothing") {
  const Stream own = stream();
  void* const data = allocate(1_MiB, own);
  allocator->record_stream(data, own);
  free(data);
  void* const on_legacy = allocate(4_MiB, StreamRef(context, nullptr));
  allocator->record_stream(on_legacy, StreamRef(context, CU_STREAM_LEGACY));
  free(on_legacy);
  CHECK(counters().frees_deferred == 0);
  CHECK(counters().bytes_active.current == 0);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "recording a stream twice has the effect of recording it once") {
  const Stream own = stream();
  const Stream user = stream();
  void* const data = allocate(60_MiB, own);
  allocator->record_stream(data, user);
  allocator->record_stream(data, user);
  const std::uint64_t records = simulator.calls("cuEventRecord");
  free(data);
  CHECK(simulator.calls("cuEventRecord") == records + 1);
  CHECK(counters().blocks_pending.current == 1);
  run_stream(user);
  CHECK(allocate(60_MiB, own) == data);
  CHECK(counters().frees_reclaimed == 1);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a deferred free counts as active until each of its streams has passed") {
  const Stream own = stream();
  const Stream user = stream();
  const Stream other_user = stream();
  void* const data = allocate(60_MiB, own);
  allocator->record_stream(data, other_user);
  log.submit(other_user, "other use");
  free_used_by(data, user, "use");
  CHECK(counters().bytes_active.current == 60_MiB);
  CHECK(counters().bytes_allocated.current == 0);
  CHECK(counters().bytes_requested.current == 0);
  CHECK(counters().blocks_pending.current == 1);
  run_stream(user);
  void* const small = allocate(2_MiB, own);  // polls: one of two has passed
  CHECK(small != data);
  CHECK(counters().blocks_pending.current == 1);
  run_stream(other_user);
  CHECK(allocate(60_MiB, own) == data);
  CHECK(counters().blocks_pending.current == 0);
  CHECK(counters().frees_reclaimed == 1);
  CHECK(counters().deferred_free_waits == 0);
  CHECK(counters().bytes_active.current == 62_MiB);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a deferred free goes back to its own stream, behind that stream's work") {
  const Stream own = stream();
  const Stream user = stream();
  const Stream third = stream();
  void* const data = allocate(60_MiB, own);
  log.submit(own, "own work");
  free_used_by(data, user, "use");
  run_stream(user);
  CHECK(allocate(60_MiB, third) == data);
  CHECK(runs_behind(third, "own work"));
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "with nothing else left the host waits, for the oldest deferred free first") {
  const Stream own = stream();
  const Stream early = stream();
  const Stream late = stream();
  void* const a = allocate(30_MiB, own);
  void* const b = allocate(30_MiB, own);
  free_used_by(b, late, "first freed");
  free_used_by(a, early, "second freed");
  CHECK(allocate(30_MiB, own) == b);
  CHECK(log.is_done("first freed"));
  CHECK_FALSE(log.is_done("second freed"));
  CHECK(counters().deferred_free_waits == 1);
  CHECK(allocate(30_MiB, own) == a);
  CHECK(counters().deferred_free_waits == 2);
}

TEST_CASE_FIXTURE(AllocatorFixture, "a use by a drained stream delays no reuse") {
  const Stream own = stream();
  void* const data = allocate(1_MiB, own);
  {
    const Stream user = stream();
    allocator->record_stream(data, user);
    log.submit(user, "use");
  }  // its last work is marked
  simulator.run_all();
  allocator->trim(~std::size_t{0});  // learns that the last work has passed
  free(data);
  CHECK(counters().frees_deferred == 0);
  CHECK(allocate(1_MiB, own) == data);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a use by a stream that went away is waited for until its last work has passed") {
  const Stream own = stream();
  void* const data = allocate(40_MiB, own);
  {
    const Stream user = stream();
    allocator->record_stream(data, user);
    log.submit(user, "use");
  }
  free(data);
  CHECK(counters().blocks_pending.current == 1);
  void* const other = allocate(24_MiB, own);
  CHECK(other != data);
  CHECK(counters().blocks_pending.current == 1);
  CHECK_FALSE(log.is_done("use"));
  simulator.run_all();
  CHECK(allocate(40_MiB, own) == data);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "memory cached for a stream that went away is reused behind its last work only") {
  const Stream next = stream();
  void* data = nullptr;
  {
    const Stream gone = stream();
    data = allocate(60_MiB, gone);
    log.submit(gone, "last work");
    free(data);
  }
  CHECK(allocate(60_MiB, next) == data);
  CHECK(runs_behind(next, "last work"));
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "a block freed after its stream went away is reused behind that stream's last work only") {
  const Stream next = stream();
  void* data = nullptr;
  {
    const Stream gone = stream();
    data = allocate(60_MiB, gone);
    log.submit(gone, "last work");
  }
  free(data);
  CHECK(counters().frees_deferred == 0);
  CHECK(allocate(60_MiB, next) == data);
  CHECK(runs_behind(next, "last work"));
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "once the last work of a destroyed stream has completed, its memory is unowned") {
  const Stream next = stream();
  void* cached = nullptr;
  void* live = nullptr;
  {
    const Stream gone = stream();
    cached = allocate(10_MiB, gone);
    live = allocate(10_MiB, gone);
    log.submit(gone, "last work");
    free(cached);
  }
  simulator.run_all();
  CHECK(allocate(10_MiB, next) == cached);
  free(live);
  const std::uint64_t calls = driver_calls();
  CHECK(allocate(10_MiB, next) == live);
  CHECK(driver_calls() == calls);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a reused handle is a new stream without a claim to the old one's memory") {
  Stream own = stream();
  void* const data = allocate(8_MiB, own);
  void* const kept = allocate(2_MiB, own);
  log.submit(own, "last work");
  free(data);
  allocator->retire_stream(own);  // and used again, as if a later stream had got the handle
  CHECK(allocate(8_MiB, own) != data);
  CHECK(counters().bytes_reserved.current == 18_MiB);
  allocator->record_stream(kept, own);  // not the stream that the block is ordered on
  free(kept);
  CHECK(counters().frees_deferred == 1);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "retiring a stream unknown to the allocator makes no driver call") {
  const Stream own = stream();
  const std::uint64_t calls = driver_calls();
  allocator->retire_stream(own);
  CHECK(driver_calls() == calls);
}

TEST_CASE_FIXTURE(AllocatorFixture, "trim waits for the uses that deferred frees await") {
  const Stream own = stream();
  const Stream user = stream();
  free_used_by(allocate(8_MiB, own), user, "use");
  CHECK(allocator->trim(0) == 8_MiB);
  CHECK(log.is_done("use"));
  CHECK(counters().frees_reclaimed == 1);

  free_used_by(allocate(8_MiB, own), user, "a use that is not in the way");
  CHECK(allocator->trim(8_MiB) == 0);
  CHECK_FALSE(log.is_done("a use that is not in the way"));
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "memory without a stream is unowned: reused at once, or behind its uses") {
  const Stream user = stream();
  void* const data = allocate(40_MiB, std::nullopt);
  free(data);
  CHECK(allocate(40_MiB, std::nullopt) == data);
  free_used_by(data, user, "use");
  void* const other = allocate(20_MiB, std::nullopt);
  CHECK(other != data);
  CHECK_FALSE(log.is_done("use"));
  run_stream(user);
  CHECK(allocate(40_MiB, std::nullopt) == data);
  CHECK(counters().frees_reclaimed == 1);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "the destructor waits for deferred frees and leaves nothing in the driver") {
  const Stream own = stream();
  const Stream user = stream();
  free_used_by(allocate(8_MiB, own), user, "use");
  free(allocate(4_MiB, own));
  allocate(1_MiB, own);
  context.remove_observer(*allocator);
  allocator.reset();
  CHECK(log.is_done("use"));
  CHECK(simulator.live().mappings == 0);
  CHECK(simulator.live().reservations == 0);
  CHECK(events.leases_live() == 0);
  CHECK(reports.all().empty());
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a destroyed stream is not forgotten while a live block has it") {
  const Stream owner = stream();
  void* const data = allocate(1_MiB, owner);
  {
    const Stream user = stream();
    allocator->record_stream(data, user);
  }
  const auto many_come_and_go = [&] {
    for (int count = 0; count < 40; ++count) {
      const Stream passing = stream();
      free(allocate(512, passing));
    }
  };
  many_come_and_go();
  allocator->trim(0);  // asks those that are gone whether their work is done
  many_come_and_go();
  free(data);
  CHECK(counters().blocks_allocated.current == 0);
  CHECK(counters().frees_deferred == counters().frees_reclaimed);
}

}  // namespace caching_allocator_streams_test
