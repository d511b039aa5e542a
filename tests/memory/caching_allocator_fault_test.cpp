// SPDX-License-Identifier: Apache-2.0
// A driver that refuses single calls: the request fails or is served otherwise, nothing is lost,
// and the next call succeeds.
#include <optional>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"
#include "support/death.hpp"
#include "support/errors.hpp"

namespace caching_allocator_fault_test {

using namespace berth;
using namespace berth::test;

namespace {

/// The stream `gone` has work pending, a freed block of its own, and a use of a block of `own`.
struct EndingStream : AllocatorFixture {
  EndingStream() {
    allocator->record_stream(used, *gone);
    log.submit(*gone, "last work");
    free(cached);
  }

  const Stream next = stream();
  const Stream own = stream();
  std::optional<Stream> gone{stream()};
  void* const cached = allocate(8_MiB, *gone);
  void* const used = allocate(8_MiB, own);
};

}  // namespace

TEST_CASE("a growth that the driver has no memory for leaves its addresses to the next") {
  for (const Backing backing : {Backing::arena, Backing::segments}) {
    AllocatorFixture test({.backing = backing});
    const Stream own = test.stream();
    const DriverCall call =
        backing == Backing::arena ? DriverCall::mem_create : DriverCall::mem_alloc;
    test.tap.refuse_all(call, CUDA_ERROR_OUT_OF_MEMORY);
    message_of<OutOfMemory>([&] { return test.allocate(3_MiB, own); });
    test.allocator->validate();
    CHECK(test.counters().bytes_reserved.current == 0);
    CHECK(test.budget.reserved() == 0);
    CHECK(test.counters().segments_mapped == 0);
    CHECK(test.counters().out_of_memory == 1);
    test.tap.allow(call);
    CHECK(test.allocate(3_MiB, own) != nullptr);
  }
}

TEST_CASE("other driver failures are not out of memory, and the error names the code") {
  for (const Backing backing : {Backing::arena, Backing::segments}) {
    AllocatorFixture test({.backing = backing});
    const Stream own = test.stream();
    const DriverCall call = backing == Backing::arena ? DriverCall::mem_map : DriverCall::mem_alloc;
    test.tap.refuse(call, CUDA_ERROR_INVALID_VALUE);
    const std::string message = message_of<DriverError>([&] { return test.allocate(3_MiB, own); });
    CHECK(contains(message, "cuda:0"));
    CHECK(contains(message, "CUDA_ERROR_INVALID_VALUE"));
    test.allocator->validate();
    CHECK(test.counters().bytes_reserved.current == 0);
    CHECK(test.budget.reserved() == 0);
    CHECK(test.counters().out_of_memory == 0);
    CHECK(test.allocate(3_MiB, own) != nullptr);
  }
}

TEST_CASE("a growth fails if the context cannot be made current, and the next one succeeds") {
  for (const DriverCall call : {DriverCall::ctx_get_current, DriverCall::ctx_push_current}) {
    CAPTURE(kDriverCallNames[std::size_t(call)]);
    const auto fail_then_allocate = [call] {
      AllocatorFixture test;
      const Stream own = test.stream();
      test.tap.refuse(call, CUDA_ERROR_UNKNOWN);
      message_of<DriverError>([&] { return test.allocator->allocate(3_MiB, own); });
      test.allocator->validate();
      test.free(test.allocate(AllocatorFixture::kDeviceBytes, own));
    };
    CHECK_FALSE(stops_the_process(fail_then_allocate));
  }
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "if the driver has no memory left, idle memory is joined with new memory") {
  const Stream own = stream();
  const Stream user = stream();
  void* const large = allocate(40_MiB, own);
  void* const wall = allocate(2_MiB, own);
  free(large);
  CHECK(allocate(50_MiB, user) != nullptr);  // 40 of it have to come from what is cached
  CHECK(counters().page_remaps > 0);
  CHECK(counters().segments_released == 0);
  CHECK(counters().bytes_reserved.current <= kDeviceBytes);
  free(wall);
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "a free whose event the driver refuses is reported, and waits for a later event") {
  const Stream own = stream();
  const Stream user = stream();
  void* const data = allocate(60_MiB, own);
  allocator->record_stream(data, user);
  log.submit(user, "use");
  tap.refuse(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
  free(data);
  CHECK(reports.count(Severity::warning) == 1);
  CHECK(counters().blocks_pending.current == 1);
  CHECK(events.leases_live() == 0);
  SUBCASE("the next search records the event") {
    run_stream(user);
    const std::uint64_t records = simulator.calls("cuEventRecord");
    tap.after(DriverCall::event_record, [this, &user] { run_stream(user); });
    CHECK(allocate(60_MiB, own) == data);
    CHECK(simulator.calls("cuEventRecord") == records + 1);
  }
  SUBCASE("the host waits for the event") {
    CHECK(allocate(60_MiB, own) == data);
    CHECK(log.is_done("use"));
    CHECK(counters().deferred_free_waits == 1);
  }
  CHECK(counters().frees_reclaimed == 1);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "a driver that refuses every event does not stop frees of other streams") {
  const Stream own = stream();
  const Stream stuck = stream();
  const Stream fine = stream();
  void* const a = allocate(30_MiB, own);
  void* const b = allocate(30_MiB, own);
  tap.refuse(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
  free_used_by(a, stuck, "stuck");
  free_used_by(b, fine, "fine");
  tap.refuse_all(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
  run_stream(fine);
  CHECK(allocate(30_MiB, own) == b);
  CHECK(counters().blocks_pending.current == 1);
  tap.allow(DriverCall::event_record);
}

TEST_CASE_FIXTURE(EndingStream, "a stream whose last work cannot be marked is waited for instead") {
  SUBCASE("a use by the stream is marked") {
    free(used);
  }
  SUBCASE("a use by the stream is live") {}
  SUBCASE("a use by the stream is not marked") {
    tap.refuse(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
    free(used);
  }
  tap.refuse(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
  gone.reset();
  allocator->validate();
  CHECK(log.is_done("last work"));
  CHECK(reports.mention("waiting for a stream"));
  CHECK(allocate(8_MiB, next) == cached);  // nobody's now
  if (counters().blocks_allocated.current == 2) free(used);
  CHECK(allocate(8_MiB, own) == used);
  CHECK(counters().blocks_pending.current == 0);
}

TEST_CASE_FIXTURE(EndingStream,
                  "an ended stream whose first capture query failed is marked nevertheless") {
  tap.refuse(DriverCall::stream_is_capturing, CUDA_ERROR_UNKNOWN);
  gone.reset();
  CHECK_FALSE(log.is_done("last work"));
  simulator.run_all();
  CHECK(allocate(8_MiB, next) == cached);
  free(used);
  CHECK(allocate(8_MiB, own) == used);
  CHECK(simulator.calls("cuCtxSynchronize") == 0);
}

TEST_CASE_FIXTURE(AllocatorFixture,
                  "memory of an ended stream that could not be queried waits for an idle device") {
  const Stream next = stream();
  std::optional<Stream> gone(stream());
  void* const cached = allocate(40_MiB, *gone);
  log.submit(*gone, "last work");
  free(cached);
  tap.refuse_all(DriverCall::stream_is_capturing, CUDA_ERROR_UNKNOWN);
  gone.reset();
  tap.allow(DriverCall::stream_is_capturing);
  CHECK(reports.mention("the completion of its work is unknown"));
  CHECK(reports.count(Severity::error) == 0);
  const std::uint64_t asked = simulator.calls("cuStreamIsCapturing");
  CHECK(allocate(8_MiB, next) != nullptr);
  CHECK_FALSE(log.is_done("last work"));
  CHECK(simulator.calls("cuStreamIsCapturing") <= asked + 1);  // on `next`
  CHECK(allocate(48_MiB, next) != nullptr);
  CHECK(log.is_done("last work"));
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "a wait that the driver refuses fails the request, and the memory is not reused") {
  const Stream first = stream();
  const Stream second = stream();
  void* const data = allocate(60_MiB, first);
  log.submit(first, "earlier");
  free(data);
  SUBCASE("the event cannot be recorded") {
    tap.refuse(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
  }
  SUBCASE("the wait cannot be inserted") {
    tap.refuse(DriverCall::stream_wait_event, CUDA_ERROR_UNKNOWN);
  }
  message_of<DriverError>([&] { return allocate(60_MiB, second); });
  allocator->validate();
  CHECK(counters().stream_waits_inserted == 0);
  CHECK(allocate(60_MiB, second) == data);
  CHECK(runs_behind(second, "earlier"));
}

TEST_CASE_FIXTURE(AllocatorFixture, "a failed event query leaves the free deferred") {
  const Stream own = stream();
  const Stream user = stream();
  void* const data = allocate(60_MiB, own);
  free_used_by(data, user, "use");
  tap.refuse(DriverCall::event_query, CUDA_ERROR_UNKNOWN);
  message_of<DriverError>([&] { return allocate(60_MiB, own); });
  allocator->validate();
  CHECK(counters().blocks_pending.current == 1);
  run_stream(user);
  CHECK(allocate(60_MiB, own) == data);
}

TEST_CASE_FIXTURE(
    AllocatorFixture,
    "a destructor that cannot wait for a deferred free reports it and returns all memory") {
  const Stream own = stream();
  const Stream user = stream();
  free_used_by(allocate(8_MiB, own), user, "use");
  tap.refuse(DriverCall::event_synchronize, CUDA_ERROR_UNKNOWN);
  context.remove_observer(*allocator);
  allocator.reset();
  CHECK(reports.count(Severity::error) == 1);
  CHECK(reports.mention("cuda:0"));
  CHECK(simulator.live().mappings == 0);
  simulator.run_all();
}

}  // namespace caching_allocator_fault_test
