// SPDX-License-Identifier: Apache-2.0
// Allocators while all events are on lease: completed events are reclaimed before a request is
// refused.
#include <optional>
#include <vector>

#include "memory/memory_fixture.hpp"
#include "support/errors.hpp"
#include "support/foreign_stream.hpp"

namespace event_shortage_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kEvents = 4;

struct ShortageTest : Simulation {
  explicit ShortageTest(sim::Progress progress)
      : Simulation(small_device(64_MiB, progress), options()),
        memory(runtime->memory(Device::cuda(0))),
        own(runtime->create_stream(Device::cuda(0))),
        user(runtime->create_stream(Device::cuda(0))) {}
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.event_pool.events_max = kEvents;
    return options;
  }

  DeviceAllocator& memory;
  const Stream own;
  const Stream user;
};

struct EagerShortage : ShortageTest {
  EagerShortage() : ShortageTest(sim::Progress::eager) {}
};
struct ManualShortage : ShortageTest {
  ManualShortage() : ShortageTest(sim::Progress::manual) {}
};

/// Uses more blocks of the allocator on a stream, one after the other, than there are events.
template <class Allocate>
void use_many(Allocator& memory, StreamRef user, const Allocate& allocate) {
  std::vector<void*> blocks;
  for (std::size_t count = 0; count < 5 * kEvents; ++count) blocks.push_back(allocate());
  for (void* const block : blocks) {
    memory.record_use(block, user);
    memory.deallocate(block);
  }
}

}  // namespace

TEST_CASE_FIXTURE(EagerShortage, "events of completed uses are reused by later ones") {
  use_many(memory, user, [&] { return memory.allocate_raw(1000, own); });
  memory.validate();
  PinnedAllocator& pinned = runtime->pinned_memory();
  use_many(pinned, user, [&] { return pinned.allocate_raw(1000); });
  HostAllocator& host = runtime->host_memory();
  use_many(host, user, [&] { return host.allocate_raw(1000); });
}

TEST_CASE_FIXTURE(ManualShortage, "a use without a free event is refused and changes nothing") {
  std::vector<Allocation> blocks;
  for (std::size_t count = 0; count < kEvents; ++count) {
    log.submit(user, "use");
    blocks.push_back(memory.allocate(1000, own));
    blocks.back().record_use(user);
  }
  std::optional<Allocation> last = memory.allocate(1000, own);
  const void* const data = last->data();
  CHECK_THROWS_AS(last->record_use(user), Exhausted);
  blocks.clear();
  CHECK_THROWS_AS(last->record_use(user), Exhausted);
  last.reset();
  CHECK(memory.allocate(1000, own).data() == data);  // not recorded, so not deferred
  simulator.run_all();
  memory.allocate(1000, own).record_use(user);
}

TEST_CASE_FIXTURE(ManualShortage,
                  "a request is served although no event is left to mark its stream") {
  const StreamRef foreign = disown(runtime->create_stream(Device::cuda(0)));
  std::vector<EventLease> held;
  {
    std::vector<Allocation> freed;
    for (int count = 0; count < 10; ++count) freed.push_back(memory.allocate(2_MiB, foreign));
  }
  for (std::size_t count = 0; count < kEvents; ++count)
    held.push_back(runtime->events(Device::cuda(0)).acquire());
  { const Allocation block = memory.allocate(2_MiB, own); }
  { const Allocation block = memory.allocate(40_MiB, foreign); }
  CHECK(memory.allocate(60_MiB, foreign).data() != nullptr);
  held.clear();
  memory.validate();
  memory.retire_stream(foreign);
  destroy_disowned(foreign);
}

// Their memory is the only memory that is left, and each wait for one needs an event.
TEST_CASE("streams are awaited one by one if there are more of them than events") {
  for (const std::size_t leased : {kEvents - 1, kEvents}) {
    CAPTURE(leased);
    RuntimeOptions options = ShortageTest::options();
    options.device_allocator.cross_stream_reuse = CrossStreamReuse::behind_waits;
    Simulation test(small_device(64_MiB, sim::Progress::manual), std::move(options));
    DeviceAllocator& memory = test.runtime->memory(Device::cuda(0));
    const Stream own = test.runtime->create_stream(Device::cuda(0));
    std::vector<Stream> others;
    for (std::size_t index = 0; index < 2 * kEvents; ++index) {
      others.push_back(test.runtime->create_stream(Device::cuda(0)));
      const Allocation block = memory.allocate(6_MiB, others.back());
      test.log.submit(others.back(), "work");
    }
    std::vector<EventLease> held;
    while (held.size() < leased) held.push_back(test.runtime->events(Device::cuda(0)).acquire());
    if (leased < kEvents)
      CHECK(memory.allocate(60_MiB, own).data() != nullptr);
    else
      CHECK_THROWS_AS(static_cast<void>(memory.allocate(60_MiB, own)), OutOfMemory);
    held.clear();
    CHECK(memory.allocate(60_MiB, own).data() != nullptr);
    memory.validate();
    test.simulator.run_all();
  }
}

}  // namespace event_shortage_test
