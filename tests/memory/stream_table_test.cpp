// SPDX-License-Identifier: Apache-2.0
#include "memory/order/stream_table.hpp"

#include <cuda.h>

#include <memory>
#include <new>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "device/device_context.hpp"
#include "support/death.hpp"
#include "support/scarce_memory.hpp"

namespace stream_table_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Two devices of a driver that is never called: the table looks at handles only.
struct Handles {
  [[nodiscard]] StreamRef stream(std::uintptr_t handle) {
    return {context, reinterpret_cast<CUstream>(handle)};
  }
  /// An event that nothing is asked of.
  static SharedEvent event() {
    const auto identity = std::make_shared<int>(0);
    return {identity, reinterpret_cast<const EventLease*>(identity.get())};
  }

  Driver driver{DriverSource{}, {}};
  DeviceContext context{driver, Device::cuda(0), 0};
  DeviceContext other_context{driver, Device::cuda(1), 1};
  StreamTable table;
};

}  // namespace

TEST_CASE_FIXTURE(Handles, "a stream has one id, which is not kUnowned and no other stream's") {
  std::set<OwnerId> ids;
  for (std::uintptr_t handle = 0x100; handle < 0x120; ++handle) {
    const OwnerId id = table.id_of(stream(handle));
    CHECK(id != kUnowned);
    CHECK(ids.insert(id).second);
    CHECK(table.id_of(stream(handle)) == id);
    CHECK(table.find(stream(handle)) == id);
    CHECK(table.entry(id).stream == stream(handle));
    CHECK_FALSE(table.entry(id).retired);
    CHECK_FALSE(table.is_drained(id));
  }
}

TEST_CASE_FIXTURE(Handles, "finding a stream does not give it an id") {
  CHECK_FALSE(table.find(stream(0x100)).has_value());
  CHECK_FALSE(table.find(stream(0x100)).has_value());
  const OwnerId id = table.id_of(stream(0x100));
  CHECK(table.find(stream(0x100)) == id);
  CHECK_FALSE(table.find(stream(0x200)).has_value());
}

TEST_CASE_FIXTURE(Handles, "the legacy default stream is one stream by both of its handles") {
  const StreamRef null{context, nullptr};
  const StreamRef legacy{context, CU_STREAM_LEGACY};
  const OwnerId id = table.id_of(legacy);
  CHECK(table.id_of(null) == id);
  CHECK(table.find(legacy) == id);
  table.retire(id, nullptr);
  CHECK_FALSE(table.find(null).has_value());
  CHECK_FALSE(table.find(legacy).has_value());
  const OwnerId later = table.id_of(null);
  CHECK(later != id);
  CHECK(table.id_of(legacy) == later);
}

TEST_CASE_FIXTURE(Handles, "the default streams of two devices are two streams") {
  const OwnerId here = table.id_of({context, nullptr});
  const OwnerId there = table.id_of({other_context, nullptr});
  CHECK(here != there);
  CHECK(table.entry(there).stream.device() == Device::cuda(1));
  table.retire(here, nullptr);
  CHECK(table.find({other_context, nullptr}) == there);
}

TEST_CASE_FIXTURE(Handles, "a handle that comes back after retirement is a stream of its own") {
  std::set<OwnerId> ids;
  for (int round = 0; round < 10; ++round) {
    const OwnerId id = table.id_of(stream(0x100));
    CHECK(ids.insert(id).second);
    table.retire(id, round % 2 == 0 ? nullptr : event());
    CHECK_FALSE(table.find(stream(0x100)).has_value());
    CHECK(table.entry(id).retired);
  }
  for (const OwnerId id : ids) CHECK(table.entry(id).stream == stream(0x100));
}

TEST_CASE_FIXTURE(Handles, "an id is not reused after its stream was forgotten") {
  const OwnerId first = table.id_of(stream(0x100));
  table.retire(first, nullptr);
  table.forget_drained_except({});
  CHECK(table.id_of(stream(0x100)) > first);
}

TEST_CASE_FIXTURE(Handles,
                  "a stream is drained once it is retired and its last work has completed") {
  const OwnerId id = table.id_of(stream(0x100));
  const SharedEvent last_work = event();
  table.retire(id, last_work);
  CHECK_FALSE(table.is_drained(id));
  CHECK(table.entry(id).last_work == last_work);
  table.mark_drained(id);
  CHECK(table.is_drained(id));
  CHECK(table.entry(id).last_work == nullptr);
  table.mark_drained(id);
  CHECK(table.is_drained(id));

  const OwnerId idle = table.id_of(stream(0x200));
  table.retire(idle, nullptr);
  CHECK(table.is_drained(idle));
  CHECK(table.is_drained(kUnowned));
}

TEST_CASE_FIXTURE(Handles,
                  "the ending streams are the retired ones whose last work may still run") {
  CHECK(table.draining().empty());
  std::vector<OwnerId> ids;
  for (std::uintptr_t handle = 1; handle <= 4; ++handle)
    ids.push_back(table.id_of(stream(handle << 8)));
  CHECK(table.draining().empty());
  table.retire(ids[1], event());
  table.retire(ids[2], nullptr);
  table.retire(ids[3], event());
  CHECK(table.draining() == std::vector<OwnerId>{ids[1], ids[3]});
  table.mark_drained(ids[1]);
  CHECK(table.draining() == std::vector<OwnerId>{ids[3]});
}

TEST_CASE_FIXTURE(Handles, "only a retired and drained stream without blocks is forgotten") {
  const OwnerId alive = table.id_of(stream(0x100));
  const OwnerId draining = table.id_of(stream(0x200));
  const OwnerId over = table.id_of(stream(0x300));
  const OwnerId named = table.id_of(stream(0x400));
  table.retire(draining, event());
  table.retire(over, nullptr);
  table.retire(named, nullptr);
  table.forget_drained_except({named, 12345});
  CHECK(table.find(stream(0x100)) == alive);
  CHECK(table.entry(alive).stream == stream(0x100));
  CHECK(table.entry(draining).retired);
  CHECK(table.is_drained(named));
  CHECK_THROWS(static_cast<void>(table.entry(over)));
  table.forget_drained_except({});
  CHECK_THROWS(static_cast<void>(table.entry(named)));
  CHECK(table.draining() == std::vector<OwnerId>{draining});
}

TEST_CASE_FIXTURE(Handles,
                  "the completion of an event completes those recorded before it, and no others") {
  const OwnerId id = table.id_of(stream(0x100));
  const OwnerId other = table.id_of(stream(0x200));
  const RecordedEvent first{event(), 0, 1};
  const RecordedEvent at_the_same_time{event(), 0, 3};
  const RecordedEvent second{event(), 2, 4};
  const RecordedEvent not_yet;
  table.set_completed(id, second);
  CHECK(table.has_completed(id, first));
  CHECK_FALSE(table.has_completed(id, at_the_same_time));
  CHECK_FALSE(table.has_completed(id, not_yet));
  CHECK_FALSE(table.has_completed(other, first));
  table.set_completed(id, first);  // asked late
  CHECK(table.has_completed(id, first));
  table.retire(id, nullptr);
  CHECK(table.has_completed(id, not_yet));
}

TEST_CASE_FIXTURE(
    Handles, "retiring a stream twice, or draining one that is not retired, stops the process") {
  const OwnerId id = table.id_of(stream(0x100));
  CHECK(stops_the_process([&] { table.mark_drained(id); }));
  table.retire(id, event());
  CHECK(stops_the_process([&] { table.retire(id, nullptr); }));
}

TEST_CASE_FIXTURE(Handles, "a stream is not added in part if host memory is short") {
  for (std::uintptr_t handle = 0x100; handle < 0x110; ++handle) {
    std::size_t refused = 0;
    OwnerId id = kUnowned;
    while (id == kUnowned) {
      const std::size_t known = table.all().size();
      try {
        const ScarceMemory scarce(refused);
        id = table.id_of(stream(handle));
      } catch (const std::bad_alloc&) {
        ++refused;
      }
      if (id != kUnowned) break;
      REQUIRE_FALSE(table.find(stream(handle)).has_value());
      REQUIRE(table.all().size() == known);
    }
    CHECK(refused == 2);
    CHECK(table.find(stream(handle)) == id);
    CHECK(table.entry(id).stream == stream(handle));
  }
}

TEST_CASE_FIXTURE(Handles, "retiring a stream allocates no host memory") {
  const OwnerId marked = table.id_of(stream(0x100));
  const OwnerId unordered = table.id_of(stream(0x200));
  const SharedEvent last_work = event();
  std::size_t calls = 0;
  {
    const ScarceMemory scarce(0);
    table.retire(marked, last_work);
    table.mark_drained(marked);
    table.retire_unordered(unordered);
    calls = scarce.calls();
  }
  CHECK(calls == 0);
  CHECK(table.is_drained(marked));
  CHECK(table.entry(unordered).unordered);
}

}  // namespace stream_table_test
