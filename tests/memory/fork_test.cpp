// SPDX-License-Identifier: Apache-2.0
// A process is forked while another of its threads allocates. The child must not wait for locks
// that are never released, nor call the driver.
#include <atomic>
#include <csignal>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "memory/allocator_fixture.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"

namespace fork_test {

using namespace berth;
using namespace berth::test;

namespace {

struct BusyFixture : AllocatorFixture {
  BusyFixture() : own(stream()), other(stream()) {
    live = allocator->allocate(1_MiB, own);
    hit = allocator->allocate(2_MiB, own);
    allocator->deallocate(hit);
    thread = std::thread([this] {
      // Mostly misses, which take the lock.
      for (std::size_t round = 0; !stop; ++round) {
        allocator->deallocate(allocator->allocate(512 + 512 * (round % 2000), other));
      }
    });
  }
  ~BusyFixture() {
    stop = true;
    thread.join();
    allocator->deallocate(live);
  }

  Stream own;
  Stream other;
  void* live = nullptr;
  void* hit = nullptr;
  std::atomic<bool> stop = false;
  std::thread thread;
};

}  // namespace

TEST_CASE_FIXTURE(BusyFixture,
                  "a forked child is refused memory at once, and its frees do nothing") {
  for (int round = 0; round < 20; ++round) {
    const auto code = exit_code_of([&] {
      alarm(kHangSeconds);  // ends a child that waits
      const std::uint64_t calls = driver_calls();
      bool refused = is_refused_after_fork([&] { allocator->allocate(2_MiB, own); });
      refused &= is_refused_after_fork([&] { allocator->allocate(3_MiB, own); });
      refused &= is_refused_after_fork([&] { allocator->record_stream(live, other); });
      refused &= is_refused_after_fork([&] { allocator->record_use(live, other); });
      refused &= is_refused_after_fork([&] { allocator->trim(0); });
      refused &= is_refused_after_fork([&] { static_cast<void>(allocator->counters()); });
      refused &= is_refused_after_fork([&] { static_cast<void>(allocator->snapshot()); });
      refused &= is_refused_after_fork([&] { allocator->validate(); });
      allocator->deallocate(live);
      allocator->deallocate(live);
      allocator->retire_stream(own);
      refused &= !allocator->owns(live);
      const bool silent = driver_calls() == calls;
      _exit(refused && silent ? 0 : 1);
      return 0;
    });
    CHECK(code == 0);
  }
  void* const data = allocator->allocate(2_MiB, own);  // the parent goes on as before
  CHECK(data != nullptr);
  allocator->deallocate(data);
}

TEST_CASE("an allocator that was not there at the fork works in the child") {
  const auto code = exit_code_of([] {
    alarm(kHangSeconds);
    AllocatorFixture test;
    const Stream own = test.stream();
    void* const data = test.allocate(1_MiB, own);
    test.free(data);
    _exit(test.allocate(1_MiB, own) == data ? 0 : 1);
    return 0;
  });
  CHECK(code == 0);
}

}  // namespace fork_test
