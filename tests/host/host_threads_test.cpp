// SPDX-License-Identifier: Apache-2.0
// Host memory, pinned and pageable, while streams that use it are destroyed on other threads and
// others poll.
#include <cstdint>
#include <functional>
#include <optional>
#include <sys/mman.h>
#include <thread>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"
#include "berth/host_allocator.hpp"

#include "memory/order/device_event_pools.hpp"
#include "pinned/pinned_registrations.hpp"
#include "stream/capture.hpp"
#include "support/meanwhile.hpp"
#include "support/simulation.hpp"
#include "support/tapped_device.hpp"

namespace host_threads_test {

using namespace berth;
using namespace berth::test;

namespace {

struct HostTest : TappedDevice {
  HostTest() : TappedDevice(manual_progress()) {}

  /// A block that `user` still uses, with `use` pending.
  void free_used_by(HostAllocator& memory, std::size_t bytes, StreamRef user, const char* use) {
    void* const data = memory.allocate_raw(bytes);
    memory.record_stream(data, user);
    log.submit(user, use);
    memory.deallocate(data);
  }
};

struct RegistrationTest : HostTest {
  static constexpr std::size_t kBytes = 1_MiB;

  RegistrationTest()
      : pages(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(pages != MAP_FAILED);
    registrations.add(pages, kBytes);
  }
  ~RegistrationTest() {
    simulator.run_all();
    munmap(pages, kBytes);
  }
  void use(StreamRef stream, const char* work) {
    registrations.record_stream(pages, stream);
    log.submit(stream, work);
  }

  DeviceEventPools pools{registry};
  PinnedRegistrations registrations{registry, pools};
  void* pages;
};

}  // namespace

TEST_CASE_FIXTURE(RegistrationTest,
                  "the end of a registration waits for a stream that goes away meanwhile") {
  std::optional<Stream> gone(stream());
  const Stream other = stream();
  use(*gone, "use of the one that goes");
  use(other, "use of the other");
  meanwhile(DriverCall::event_synchronize, [&] { gone.reset(); });
  bool was_done = false;
  tap.before(DriverCall::mem_host_unregister,
             [&] { was_done = log.is_done("use of the one that goes"); });
  registrations.remove(pages);
  CHECK(was_done);
  CHECK(log.is_done("use of the other"));
  CHECK(reports.all().empty());
}

TEST_CASE_FIXTURE(RegistrationTest,
                  "a stream does not go away while the end of a registration marks its last use") {
  std::optional<Stream> gone(stream());
  use(*gone, "use");
  Meanwhile goes([&] { gone.reset(); });
  tap.before(DriverCall::event_record, [&] { goes.start(); });
  registrations.remove(pages);
  CHECK_FALSE(goes.was_done());
  CHECK(log.is_done("use"));
  CHECK(reports.all().empty());
}

TEST_CASE_FIXTURE(RegistrationTest,
                  "the end of a registration waits for the stream if no event can be recorded") {
  const Stream user = stream();
  use(user, "use");
  tap.refuse(DriverCall::event_record, CUDA_ERROR_OUT_OF_MEMORY);
  registrations.remove(pages);
  CHECK(log.is_done("use"));
}

TEST_CASE_FIXTURE(HostTest, "a request at the limit gets memory that another thread is polling") {
  HostAllocator memory(registry, {.bytes_reserved_max = 1_MiB});
  const Stream user = stream();
  free_used_by(memory, 1_MiB, user, "use");
  simulator.run_all();
  void* data = nullptr;
  Meanwhile asks([&] { data = memory.allocate_raw(64_KiB); });
  tap.before(DriverCall::event_query, [&] { asks.start(); });
  memory.release_unused({});
  asks.join();
  CHECK(data != nullptr);
  memory.deallocate(data);
}

TEST_CASE_FIXTURE(HostTest,
                  "no lock is held during a wait for a destroyed stream without an event") {
  HostAllocator memory(registry, {});
  std::optional<Stream> gone(stream());
  const Stream other = stream();
  free_used_by(memory, 1_KiB, other, "other use");
  void* const data = memory.allocate_raw(1_KiB);
  memory.record_stream(data, *gone);
  log.submit(*gone, "use");
  Meanwhile polls([&] { memory.release_unused({}); });
  tap.refuse_all(DriverCall::event_record, CUDA_ERROR_OUT_OF_MEMORY);
  tap.before(DriverCall::stream_synchronize, [&] { polls.start(); });
  gone.reset();
  CHECK(polls.was_done());
  CHECK(log.is_done("use"));
  tap.allow(DriverCall::event_record);
  memory.deallocate(data);
  simulator.run_all();
}

TEST_CASE_FIXTURE(HostTest,
                  "a stream does not go away while a free of host memory marks its last use") {
  HostAllocator memory(registry, {});
  std::optional<Stream> gone(stream());
  void* const data = memory.allocate_raw(1_KiB);
  memory.record_stream(data, *gone);
  Meanwhile goes([&] { gone.reset(); });
  tap.before(DriverCall::event_record, [&] { goes.start(); });
  memory.deallocate(data);
  CHECK_FALSE(goes.was_done());
  goes.join();
  CHECK(reports.all().empty());
  simulator.run_all();
}

TEST_CASE_FIXTURE(HostTest, "a call of the driver for one stream does not hold up other streams") {
  // Such a call blocks while a queue is full, and while another thread has the driver's lock.
  HostAllocator memory(registry, {});
  const Stream one = stream();
  std::optional<Stream> other(stream());
  void* const blocking = memory.allocate_raw(1_KiB);
  void* const data = memory.allocate_raw(1_KiB);
  memory.record_stream(data, *other);
  std::function<void()> call = [&] { memory.record_use(blocking, one); };
  bool frees = true;
  SUBCASE("a free during record_use()") {}
  SUBCASE("a free during a free") {
    memory.record_stream(blocking, one);
    call = [&] { memory.deallocate(blocking); };
  }
  SUBCASE("a free during a poll") {
    tap.refuse(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
    memory.record_stream(blocking, one);
    memory.deallocate(blocking);
    call = [&] { memory.release_unused({}); };
  }
  SUBCASE("the end of a stream during a free") {
    memory.record_stream(blocking, one);
    call = [&] { memory.deallocate(blocking); };
    frees = false;
  }
  Meanwhile meanwhile([&] {
    if (frees) {
      memory.record_use(data, *other);
      memory.deallocate(data);
    } else {
      other.reset();
    }
  });
  tap.before(DriverCall::event_record, [&] { meanwhile.start(); });
  call();
  CHECK(meanwhile.was_done());
  meanwhile.join();
  simulator.run_all();
  memory.trim(0);
}

TEST_CASE_FIXTURE(RegistrationTest,
                  "a record on one stream does not hold up another stream of registered memory") {
  const Stream one = stream();
  const Stream other = stream();
  Meanwhile records([&] { registrations.record_use(pages, other); });
  tap.before(DriverCall::event_record, [&] { records.start(); });
  registrations.record_use(pages, one);
  CHECK(records.was_done());
}

TEST_CASE_FIXTURE(HostTest, "uses of a stream that two threads record at once are both awaited") {
  HostAllocator memory(registry, {});
  const Stream user = stream();
  void* const data = memory.allocate_raw(1_KiB);
  log.submit(user, "first");
  meanwhile(DriverCall::event_record, [&] {
    log.submit(user, "second");
    memory.record_use(data, user);
  });
  memory.record_use(data, user);
  memory.deallocate(data);
  while (!log.is_done("second")) {
    CHECK(memory.release_unused({}) == 0);
    const ContextScope scope(context);
    REQUIRE(simulator.run_next(user.ref().native()));
  }
  simulator.run_all();
  CHECK(memory.release_unused({}) == 1_KiB);
}

TEST_CASE_FIXTURE(HostTest, "a use of host memory is marked by one thread") {
  HostAllocator memory(registry, {});
  const Stream user = stream();
  void* const data = memory.allocate_raw(1_KiB);
  memory.record_stream(data, user);
  std::size_t released = 1;
  Meanwhile polls([&] { released = memory.release_unused({}); });
  tap.before(DriverCall::event_record, [&] { polls.start(); });
  const std::uint64_t records = simulator.calls("cuEventRecord");
  memory.deallocate(data);
  polls.join();
  CHECK(released == 0);
  CHECK(simulator.calls("cuEventRecord") == records + 1);
  simulator.run_all();
  CHECK(memory.release_unused({}) == 1_KiB);
}

TEST_CASE_FIXTURE(HostTest, "trim of host memory ends while other threads free more of it") {
  HostAllocator memory(registry, {});
  const Stream user = stream();
  free_used_by(memory, 1_KiB, user, "use");
  int waits = 0;
  std::function<void()> free_more = [&] {
    if (++waits == 100) return;
    std::thread([&] { free_used_by(memory, 1_KiB, user, "more"); }).join();
    tap.after(DriverCall::event_synchronize, free_more);
  };
  tap.after(DriverCall::event_synchronize, free_more);
  memory.trim(0);
  CHECK(waits < 10);
  tap.after(DriverCall::event_synchronize, nullptr);
  simulator.run_all();
}

TEST_CASE_FIXTURE(HostTest, "a stream is not destroyed during its capture query") {
  std::optional<Stream> seen(stream());
  {
    const ContextScope scope(context);
    driver.stream_begin_capture(seen->ref().native(), CU_STREAM_CAPTURE_MODE_RELAXED);
    REQUIRE(is_capturing(*seen));
    CUgraph graph = nullptr;
    driver.stream_end_capture(seen->ref().native(), &graph);
    driver.graph_destroy(graph);
  }
  Meanwhile goes([&] { seen.reset(); });
  tap.before(DriverCall::stream_is_capturing, [&] { goes.start(); });
  CHECK_FALSE(may_be_capturing(context));
  CHECK_FALSE(goes.was_done());
  goes.join();
}

}  // namespace host_threads_test
