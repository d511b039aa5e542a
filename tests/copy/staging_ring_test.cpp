// SPDX-License-Identifier: Apache-2.0
// The ring by itself: work that a test submits stands for the copies out of a slot.
#include "copy/staging_ring.hpp"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "support/errors.hpp"
#include "support/tapped_device.hpp"

using namespace berth;
using namespace berth::test;

namespace {

sim::Config config(sim::Progress progress) {
  sim::Config config;
  config.memory = {64_MiB};
  config.progress = progress;
  return config;
}

struct RingFixture : TappedDevice {
  explicit RingFixture(sim::Progress progress = sim::Progress::manual)
      : TappedDevice(config(progress)) {}
  ~RingFixture() { simulator.run_all(); }

  StagingRing::Slot& acquire() {
    waited = false;
    return ring.acquire(waited);
  }
  /// A slot that work named `name` on `stream` uses, given back.
  StagingRing::Slot& use(StreamRef stream, const std::string& name) {
    StagingRing::Slot& slot = acquire();
    log.submit(stream, name);
    ring.release(slot, stream);
    return slot;
  }

  bool waited = false;
  PinnedAllocator pinned{registry, {}};
  StagingRing ring{context, pinned, 64_KiB, 3};
};

struct EagerRing : RingFixture {
  EagerRing() : RingFixture(sim::Progress::eager) {}
};

}  // namespace

TEST_CASE_FIXTURE(RingFixture,
                  "a slot is pinned memory of the ring's size, made by its first use") {
  CHECK(ring.slot_bytes() == 64_KiB);
  CHECK(pinned.counters().allocations == 0);
  StagingRing::Slot& first = acquire();
  CHECK_FALSE(waited);
  CHECK(first.memory.bytes() == 64_KiB);
  CHECK(pinned.find_block(first.memory.data()) == first.memory.data());
  CHECK(pinned.counters().allocations == 1);
  ring.release(first, legacy_stream());
}

TEST_CASE_FIXTURE(
    RingFixture,
    "a slot whose work is done is used again, without a wait and without another slot") {
  const Stream own = stream();
  StagingRing::Slot& first = use(own, "copy");
  run_stream(own);
  for (int round = 0; round < 5; ++round) {
    StagingRing::Slot& again = acquire();
    CHECK(&again == &first);
    CHECK_FALSE(waited);
    CHECK_FALSE(again.last_use.has_value());
    log.submit(own, "copy");
    ring.release(again, own);
    run_stream(own);
  }
  CHECK(pinned.counters().allocations == 1);
}

TEST_CASE_FIXTURE(RingFixture,
                  "slots whose work is pending are left alone while there may be more") {
  const Stream own = stream();
  StagingRing::Slot& first = use(own, "first");
  StagingRing::Slot& second = use(own, "second");
  StagingRing::Slot& third = use(own, "third");
  CHECK((&first != &second && &second != &third && &first != &third));
  CHECK(pinned.counters().allocations == 3);
  CHECK(log.done().empty());
}

TEST_CASE_FIXTURE(RingFixture,
                  "with every slot in use the oldest is waited for, by order of release") {
  const Stream early = stream();
  const Stream late = stream();
  StagingRing::Slot& a = acquire();
  StagingRing::Slot& b = acquire();
  StagingRing::Slot& c = acquire();
  log.submit(late, "of a");
  log.submit(early, "of b");
  log.submit(late, "of c");
  ring.release(b, early);
  ring.release(c, late);
  ring.release(a, late);
  StagingRing::Slot& oldest = acquire();
  CHECK(&oldest == &b);
  CHECK(waited);
  CHECK(log.done() == std::vector<std::string>{"of b"});
  CHECK_FALSE(oldest.last_use.has_value());
  StagingRing::Slot& next = acquire();
  CHECK(&next == &c);
  CHECK(log.is_done("of c"));
  ring.release(oldest, early);
  ring.release(next, late);
}

TEST_CASE_FIXTURE(RingFixture,
                  "a slot that is done is preferred to waiting for an older one that is not") {
  const Stream slow = stream();
  const Stream fast = stream();
  use(slow, "slow");
  StagingRing::Slot& second = use(fast, "fast");
  use(slow, "slow too");
  run_stream(fast);
  StagingRing::Slot& taken = acquire();
  CHECK(&taken == &second);
  CHECK_FALSE(waited);
  CHECK_FALSE(log.is_done("slow"));
  ring.release(taken, fast);
}

TEST_CASE_FIXTURE(
    RingFixture,
    "the work that a slot awaits is what its stream held at the release, and no later") {
  const Stream own = stream();
  StagingRing::Slot& first = use(own, "copy");
  log.submit(own, "later");
  while (!log.is_done("copy")) REQUIRE(simulator.run_next(own.ref().native()));
  REQUIRE(simulator.run_next(own.ref().native()));  // the mark behind it
  StagingRing::Slot& again = acquire();
  CHECK(&again == &first);
  CHECK_FALSE(waited);
  CHECK_FALSE(log.is_done("later"));
  ring.release(again, own);
}

TEST_CASE_FIXTURE(RingFixture,
                  "a scope holds a slot, and marks it with its stream's work at the end") {
  const Stream own = stream();
  void* data = nullptr;
  {
    const StagingSlot slot(ring, own);
    data = slot.data();
    CHECK(data == slot.slot().memory.data());
    CHECK_FALSE(slot.waited());
    CHECK(slot.slot().held);
    log.submit(own, "copy");
  }
  const StagingSlot other(ring, own);
  CHECK(other.data() != data);
  run_stream(own);
  const StagingSlot again(ring, own);
  CHECK(again.data() == data);
}

TEST_CASE_FIXTURE(RingFixture,
                  "pinned memory that runs short fails one use, and the next one works") {
  tap.refuse_all(DriverCall::mem_host_alloc, CUDA_ERROR_OUT_OF_MEMORY);
  message_of<OutOfMemory>([&] { return &acquire(); });
  tap.allow(DriverCall::mem_host_alloc);
  std::vector<StagingRing::Slot*> slots;
  for (int index = 0; index < 3; ++index) slots.push_back(&acquire());
  CHECK_FALSE(waited);
  for (StagingRing::Slot* slot : slots) ring.release(*slot, legacy_stream());
}

TEST_CASE_FIXTURE(RingFixture, "a use that no event can mark is waited for, and reported") {
  const Stream own = stream();
  StagingRing::Slot& slot = acquire();
  log.submit(own, "copy");
  SUBCASE("none can be made") {
    tap.refuse(DriverCall::event_create, CUDA_ERROR_UNKNOWN);
  }
  SUBCASE("none can be recorded") {
    tap.refuse(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
  }
  ring.release(slot, own);
  CHECK(log.is_done("copy"));
  CHECK(reports.count(Severity::warning) == 1);
  CHECK(&acquire() == &slot);
  CHECK_FALSE(waited);
  ring.release(slot, own);
}

TEST_CASE_FIXTURE(RingFixture, "a question that the driver refuses leaves the slot in the ring") {
  const Stream own = stream();
  StagingRing::Slot& slot = use(own, "copy");
  tap.refuse(DriverCall::event_query, CUDA_ERROR_UNKNOWN);
  message_of<DriverError>([&] { return &acquire(); });
  run_stream(own);
  CHECK(&acquire() == &slot);
  ring.release(slot, own);
}

TEST_CASE_FIXTURE(RingFixture,
                  "a wait that the driver refuses leaves the oldest slot in the ring") {
  const Stream own = stream();
  StagingRing::Slot& oldest = use(own, "first");
  use(own, "second");
  use(own, "third");
  tap.refuse(DriverCall::event_synchronize, CUDA_ERROR_UNKNOWN);
  message_of<DriverError>([&] { return &acquire(); });
  StagingRing::Slot& again = acquire();
  CHECK(&again == &oldest);
  CHECK(log.is_done("first"));
  ring.release(again, own);
}

TEST_CASE_FIXTURE(EagerRing, "threads that share few slots never hold one at once") {
  std::atomic<int> clashes = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < 5; ++index) {
    threads.emplace_back([&] {
      const Stream own(context, {});
      for (int round = 0; round < 200; ++round) {
        const StagingSlot slot(ring, own);
        auto* const bytes = static_cast<unsigned char*>(slot.data());
        const auto mine = static_cast<unsigned char>(round);
        for (std::size_t at = 0; at < 256; ++at) bytes[at] = mine;
        for (std::size_t at = 0; at < 256; ++at) clashes += bytes[at] == mine ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(clashes == 0);
  CHECK(pinned.counters().allocations <= 3);
}
