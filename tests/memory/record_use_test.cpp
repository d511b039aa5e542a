// SPDX-License-Identifier: Apache-2.0
// Recording uses where the driver refuses, where another thread comes in between, and under the
// race detector. An action that runs between two driver calls stands for the other thread, so every
// interleaving here is exact.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"
#include "support/allocator_checks.hpp"
#include "support/errors.hpp"

namespace record_use_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 20_MiB;

struct UseFixture : AllocatorFixture {
  void use(void* data, const std::string& name) {
    log.submit(user, name);
    allocator->record_use(data, user);
    allocator->validate();
  }
  /// Runs `user` until the work `name` is done, and what marks its end.
  void run_to_the_end_of(const std::string& name) {
    while (!log.is_done(name)) REQUIRE(simulator.run_next(user.ref().native()));
    simulator.run_next(user.ref().native());
  }

  Stream own = stream();
  Stream user = stream();
};

}  // namespace

TEST_CASE("a use that cannot be marked is an error, changes nothing, and the next call works") {
  for (const DriverCall refused :
       {DriverCall::stream_is_capturing, DriverCall::event_create, DriverCall::event_record}) {
    CAPTURE(kDriverCallNames[std::size_t(refused)]);
    UseFixture test;
    void* data = test.allocate(kBytes, test.own);
    test.log.submit(test.user, "use");
    const auto fail_to_record = [&] {
      test.tap.refuse(refused, CUDA_ERROR_UNKNOWN);
      const std::string message =
          message_of<DriverError>([&] { test.allocator->record_use(data, test.user); });
      CHECK(contains(message, "CUDA_ERROR_UNKNOWN"));
      test.allocator->validate();
      CHECK(test.events.leases_live() == 0);
    };
    fail_to_record();
    test.free(data);
    CHECK(test.counters().frees_deferred == 0);
    data = test.allocate(kBytes, test.own);
    fail_to_record();
    test.allocator->record_use(data, test.user);
    CHECK(test.events.leases_live() == 1);
    test.free(data);
    CHECK(test.counters().frees_deferred == 1);
    CHECK(test.allocate(kBytes, test.own) != data);
    test.run_to_the_end_of("use");
    CHECK(test.allocate(kBytes, test.own) == data);
    CHECK(test.events.leases_live() == 0);
  }
}

TEST_CASE_FIXTURE(UseFixture, "a use that cannot be marked leaves the previous use") {
  void* const data = allocate(kBytes, own);
  use(data, "first");
  log.submit(user, "second");
  tap.refuse(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
  CHECK_THROWS_AS(allocator->record_use(data, user), DriverError);
  free(data);
  CHECK(allocate(kBytes, own) != data);
  run_to_the_end_of("first");
  CHECK(allocate(kBytes, own) == data);
}

TEST_CASE_FIXTURE(UseFixture,
                  "a block holds one event for each stream, and none once it is reused") {
  const Stream other = stream();
  void* const data = allocate(kBytes, own);
  for (int round = 0; round < 5; ++round) {
    use(data, "use");
    allocator->record_use(data, other);
    CHECK(events.leases_live() == 2);
  }
  SUBCASE("freed") {
    free(data);
    simulator.run_all();
    CHECK(allocate(kBytes, own) == data);
  }
  SUBCASE("replaced by record_stream()") {
    allocator->record_stream(data, user);
    CHECK(events.leases_live() == 1);
    allocator->record_stream(data, other);
  }
  CHECK(events.leases_live() == 0);
}

TEST_CASE_FIXTURE(UseFixture,
                  "if no event can be recorded at a free, completed uses are reclaimed") {
  void* const used = allocate(kBytes, own);
  void* const recorded = allocate(kBytes, own);
  use(used, "use");
  allocator->record_stream(recorded, user);
  run_to_the_end_of("use");
  tap.refuse_all(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
  free(recorded);
  free(used);
  CHECK(allocate(kBytes, own) == used);
  CHECK(counters().blocks_pending.current == 1);
  tap.allow(DriverCall::event_record);
}

TEST_CASE_FIXTURE(UseFixture, "two threads that record uses of one stream are both waited for") {
  void* const data = allocate(kBytes, own);
  tap.after(DriverCall::event_record, [&] { use(data, "second"); });
  use(data, "first");  // recorded before the second, and noted after it
  CHECK(events.leases_live() == 2);
  free(data);
  run_to_the_end_of("first");
  CHECK(allocate(kBytes, own) != data);
  CHECK_FALSE(log.is_done("second"));
  run_to_the_end_of("second");
  CHECK(allocate(kBytes, own) == data);
  CHECK(events.leases_live() == 0);
}

TEST_CASE_FIXTURE(UseFixture,
                  "the completion of a use does not complete one recorded at the same time") {
  void* const first = allocate(kBytes, own);
  void* const second = allocate(kBytes, own);
  tap.after(DriverCall::event_record, [&] { use(second, "second"); });
  use(first, "first");
  free(first);
  run_to_the_end_of("first");
  CHECK(allocate(kBytes, own) == first);
  free(second);
  CHECK(allocate(kBytes, own) != second);
  CHECK_FALSE(log.is_done("second"));
}

TEST_CASE_FIXTURE(UseFixture,
                  "record_stream() by another thread covers a use that is being recorded") {
  void* const data = allocate(kBytes, own);
  tap.after(DriverCall::event_record, [&] { allocator->record_stream(data, user); });
  use(data, "use");
  CHECK(events.leases_live() == 0);
  log.submit(user, "until the free");
  free(data);
  run_to_the_end_of("use");
  CHECK(allocate(kBytes, own) != data);
  CHECK_FALSE(log.is_done("until the free"));
}

TEST_CASE_FIXTURE(UseFixture, "a block that is freed while its use is recorded is refused") {
  void* const data = allocate(kBytes, own);
  tap.after(DriverCall::event_record, [&] { free(data); });
  const std::string message =
      message_of<InvalidArgument>([&] { allocator->record_use(data, user); });
  CHECK(contains(message, "record a use of"));
  CHECK(events.leases_live() == 0);
  CHECK(allocate(kBytes, own) == data);
}

TEST_CASE_FIXTURE(UseFixture, "a use is waited for on any stream, without a race") {
  // What the block's next user does is in no order with the use, but for what the allocator knows.
  const auto write = [&](void* data, StreamRef stream) {
    REQUIRE(simulator.launch(stream.native(), 0, {{address_of(data), kBytes, true}}));
  };
  for (int round = 0; round < 3; ++round) {
    void* const data = allocate(kBytes, own);
    write(data, own);
    user.ref().wait(record(own)->ref());
    write(data, user);
    allocator->record_use(data, user);
    log.submit(user, "later");
    free(data);
    for (int step = 0; step < 4; ++step) {
      void* const next = allocate(kBytes, own);
      write(next, own);
      run_stream(own);
      free(next);
      simulator.run_next(user.ref().native());
    }
  }
  own.ref().sync();
  user.ref().sync();
  CHECK(simulator.take_findings() == std::vector<std::string>{});
}

}  // namespace record_use_test
