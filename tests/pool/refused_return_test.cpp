// SPDX-License-Identifier: Apache-2.0
// Memory that the driver refuses to take back stays reserved, and is returned later.
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "pool/pools_fixture.hpp"
#include "support/allocator_checks.hpp"
#include "support/errors.hpp"

namespace refused_return_test {

using namespace berth;
using namespace berth::test;

namespace {

enum class Kind { granules, contiguous, segments };

struct Case {
  Kind kind;
  DriverCall call;
};
constexpr Case kCases[] = {{Kind::granules, DriverCall::mem_unmap},
                           {Kind::granules, DriverCall::mem_release},
                           {Kind::contiguous, DriverCall::mem_unmap},
                           {Kind::contiguous, DriverCall::mem_release},
                           {Kind::segments, DriverCall::mem_free}};

struct RefusedReturn : PoolsTest {
  explicit RefusedReturn(Kind kind) : PoolsTest({.virtual_memory = kind != Kind::segments}) {
    if (kind == Kind::contiguous) pool = memory.create_pool({.name = "own", .contiguous = true});
  }
  Allocator& allocator() { return pool ? static_cast<Allocator&>(*pool) : memory; }
  std::size_t reserved() { return allocator().counters().bytes_reserved.current; }

  Stream work = stream();
  std::optional<MemoryPool> pool;
};

}  // namespace

TEST_CASE("memory that the driver refuses to take back stays reserved until a trim returns it") {
  for (const Case& each : kCases) {
    CAPTURE(std::string(kDriverCallNames[std::size_t(each.call)]));
    RefusedReturn test(each.kind);
    test.allocator().deallocate(test.allocator().allocate_raw(60_MiB, test.work));
    test.tap.refuse_all(each.call, CUDA_ERROR_UNKNOWN);
    const std::string refusal =
        message_of<DriverError>([&] { static_cast<void>(test.allocator().trim()); });
    CHECK(contains(refusal, "the driver has taken back 0 B, and refuses more: " +
                                std::string(kDriverCallNames[std::size_t(each.call)]) +
                                " failed: CUDA_ERROR_UNKNOWN"));
    CHECK(test.reserved() == 60_MiB);
    CHECK(test.used() == 60_MiB);
    CHECK_THROWS_AS(test.memory.trim(), DriverError);
    check_whole(test.allocator());
    test.tap.allow(each.call);
    CHECK(test.memory.trim() == 60_MiB);
    CHECK(test.reserved() == 0);
    CHECK(test.used() == 0);
    check_whole(test.allocator());
  }
}

TEST_CASE("what the driver takes back before it refuses is returned, and the rest is usable") {
  for (const DriverCall call : {DriverCall::mem_unmap, DriverCall::mem_release}) {
    CAPTURE(std::string(kDriverCallNames[std::size_t(call)]));
    RefusedReturn test(Kind::granules);
    test.memory.allocate(60_MiB, test.work).reset();
    test.tap.after(call, [&] { test.tap.refuse_all(call, CUDA_ERROR_UNKNOWN); });
    const std::string refusal =
        message_of<DriverError>([&] { static_cast<void>(test.memory.trim()); });
    CHECK(contains(refusal, "the driver has taken back 2.00 MiB, and refuses more"));
    CHECK(test.reserved() == 58_MiB);
    CHECK(test.used() == 58_MiB);
    check_whole(test.memory);
    const Allocation again = test.memory.allocate(58_MiB, test.work);
    CHECK(test.used() == 58_MiB);
    test.tap.allow(call);
  }
}

TEST_CASE("memory that the driver has refused once is returned before another pool's request") {
  for (const Case& each : kCases) {
    for (const int nth : {1, 3}) {
      if (nth > 1 && each.kind != Kind::granules) continue;
      CAPTURE(nth);
      CAPTURE(std::string(kDriverCallNames[std::size_t(each.call)]));
      RefusedReturn test(each.kind);
      test.allocator().deallocate(test.allocator().allocate_raw(60_MiB, test.work));
      test.tap.refuse(each.call, CUDA_ERROR_UNKNOWN, nth);
      CHECK(test.allocator().trim(58_MiB) + test.reserved() == 60_MiB);
      CHECK(test.used() == test.reserved());
      MemoryPool other = test.memory.create_pool({.name = "other"});
      const Allocation all = other.allocate(64_MiB, test.work);
      CHECK(test.reserved() == 0);
      CHECK(test.used() == 64_MiB);
      check_whole(test.memory);
    }
  }
}

TEST_CASE("a granule that another mapping still shows stays reserved") {
  std::size_t refused = 0;
  for (int nth = 1; nth <= 24; ++nth) {
    CAPTURE(nth);
    RefusedReturn test(Kind::granules);
    std::vector<Allocation> row;
    for (int index = 0; index < 32; ++index) row.push_back(test.memory.allocate(2_MiB, test.work));
    for (std::size_t index = 0; index < row.size(); index += 2) row[index].reset();
    test.memory.allocate(6_MiB, test.work).reset();  // shows three granules a second time
    REQUIRE(test.memory.counters().page_remaps == 3);
    test.tap.refuse(DriverCall::mem_unmap, CUDA_ERROR_UNKNOWN, nth);
    try {
      CHECK(test.memory.release_unused(std::chrono::seconds(0)) == 32_MiB);
    } catch (const DriverError&) {
      ++refused;
      CHECK(test.reserved() == 34_MiB);
    }
    CHECK(test.used() == test.reserved());
    check_whole(test.memory);
    test.tap.allow(DriverCall::mem_unmap);
    test.memory.trim();
    CHECK(test.used() == 32_MiB);
    row.clear();
    CHECK(test.memory.trim() == 32_MiB);
    CHECK(test.used() == 0);
  }
  CHECK(refused == 3);  // the second addresses; the others are tried again in the same call
}

TEST_CASE("memory that the driver refuses of sleep() stays reserved until a trim returns it") {
  enum class Way { pool_trims, device_trims, other_pool_needs, pool_wakes };
  for (const DriverCall call : {DriverCall::mem_unmap, DriverCall::mem_release}) {
    for (const Way way :
         {Way::pool_trims, Way::device_trims, Way::other_pool_needs, Way::pool_wakes}) {
      for (const bool for_graphs : {false, true}) {
        CAPTURE(std::string(kDriverCallNames[std::size_t(call)]));
        CAPTURE(static_cast<int>(way));
        CAPTURE(for_graphs);
        RefusedReturn test(Kind::granules);
        MemoryPool pool = test.memory.create_pool({.name = "own", .for_graphs = for_graphs});
        const Allocation block = pool.allocate(20_MiB, test.work);
        const auto reserved = [&] { return pool.counters().bytes_reserved.current; };
        const auto asleep = [&] { return pool.counters().bytes_asleep.current; };
        test.tap.after(call, [&] { test.tap.refuse_all(call, CUDA_ERROR_UNKNOWN); });
        const std::string refusal = message_of<DriverError>([&] { return pool.sleep(); });
        CHECK(contains(refusal,
                       "own is asleep; the driver has taken back 2.00 MiB, and refuses "
                       "more: " +
                           std::string(kDriverCallNames[std::size_t(call)])));
        CHECK(pool.is_asleep());
        CHECK(reserved() == 18_MiB);
        CHECK(asleep() == 2_MiB);
        CHECK(test.used() == 18_MiB);
        CHECK(pool.sleep() == 0);
        CHECK_THROWS_AS(pool.trim(), DriverError);
        CHECK_THROWS_AS(test.memory.trim(), DriverError);
        check_whole(pool);

        if (way == Way::pool_wakes) {  // and uses it
          pool.wake();
          CHECK(reserved() == 20_MiB);
          CHECK(asleep() == 0);
          CHECK(test.used() == 20_MiB);
        }
        test.tap.allow(call);
        if (way == Way::pool_trims) CHECK(pool.trim() == 18_MiB);
        if (way == Way::device_trims) CHECK(test.memory.trim() == 18_MiB);
        if (way == Way::other_pool_needs) {
          CHECK(test.memory.allocate(64_MiB, test.work).data() != nullptr);
          test.memory.trim();
        }
        if (way == Way::pool_wakes) CHECK(pool.sleep() == 20_MiB);
        CHECK(reserved() == 0);
        CHECK(asleep() == 20_MiB);
        CHECK(test.used() == 0);
        pool.wake();
        CHECK(reserved() == 20_MiB);
        CHECK(asleep() == 0);
        check_whole(pool);
      }
    }
  }
}

TEST_CASE("sleep() returns what the driver has refused before") {
  for (const bool is_refused_again : {false, true}) {
    CAPTURE(is_refused_again);
    RefusedReturn test(Kind::granules);
    MemoryPool pool = test.memory.create_pool({.name = "own"});
    test.tap.refuse(DriverCall::mem_set_access, CUDA_ERROR_UNKNOWN, 1);
    test.tap.refuse_all(DriverCall::mem_unmap, CUDA_ERROR_UNKNOWN);
    CHECK_THROWS_AS(static_cast<void>(pool.allocate(6_MiB, test.work)), DriverError);
    CHECK(pool.counters().bytes_unreturnable.current == 6_MiB);
    if (is_refused_again) {
      CHECK_THROWS_AS(pool.sleep(), DriverError);
      CHECK(test.used() == 6_MiB);
    }
    test.tap.allow(DriverCall::mem_unmap);
    if (!is_refused_again) CHECK(pool.sleep() == 6_MiB);
    CHECK(pool.is_asleep());
    CHECK(pool.trim() == (is_refused_again ? 6_MiB : 0));
    CHECK(test.used() == 0);
    CHECK(pool.counters().bytes_reserved.current == 0);
  }
}

TEST_CASE("all pools of a name are asleep if the driver refuses memory of one") {
  RefusedReturn test(Kind::granules);
  MemoryPool first = test.memory.create_pool({.name = "own"});
  MemoryPool second = test.memory.create_pool({.name = "own"});
  const Allocation a = first.allocate(4_MiB, test.work);
  const Allocation b = second.allocate(6_MiB, test.work);
  test.tap.refuse(DriverCall::mem_unmap, CUDA_ERROR_UNKNOWN, 1);
  const std::string refusal = message_of<DriverError>([&] { return test.memory.sleep("own"); });
  CHECK(contains(refusal, "is asleep; the driver has taken back 8.00 MiB, and refuses more"));
  CHECK(first.is_asleep());
  CHECK(second.is_asleep());
  CHECK(test.used() == 2_MiB);
  CHECK(test.memory.trim() == 2_MiB);
  test.memory.wake("own");
  CHECK(test.used() == 10_MiB);
}

TEST_CASE("memory of a failed growth that the driver refuses to take back stays reserved") {
  enum class Way { trim, smaller_request, same_request };
  for (const Kind kind : {Kind::granules, Kind::contiguous}) {
    for (const Way way : {Way::trim, Way::smaller_request, Way::same_request}) {
      CAPTURE(kind == Kind::contiguous);
      CAPTURE(static_cast<int>(way));
      RefusedReturn test(kind);
      const auto allocate = [&](std::size_t bytes) {
        return test.allocator().allocate_raw(bytes, test.work);
      };
      test.memory.set_limits({.bytes_reserved_max = 40_MiB});
      test.tap.refuse(DriverCall::mem_set_access, CUDA_ERROR_UNKNOWN, 1);
      test.tap.refuse_all(DriverCall::mem_unmap, CUDA_ERROR_UNKNOWN);
      CHECK_THROWS_AS(static_cast<void>(allocate(30_MiB)), DriverError);
      CHECK(test.used() == 30_MiB);
      CHECK(test.reserved() == 30_MiB);
      CHECK(test.allocator().counters().bytes_unreturnable.current == 30_MiB);
      CHECK_THROWS_AS(static_cast<void>(allocate(20_MiB)), OutOfMemory);  // the limit
      CHECK(test.used() == 30_MiB);
      CHECK_THROWS_AS(test.memory.trim(), DriverError);
      check_whole(test.allocator());

      if (way == Way::same_request) {
        test.memory.set_limits({});
        test.allocator().deallocate(allocate(30_MiB));
        // Growth gives granules access again. A segment of its own stays unusable.
        CHECK(test.used() == (kind == Kind::contiguous ? 60_MiB : 30_MiB));
        CHECK(test.reserved() == test.used());
      }
      test.tap.allow(DriverCall::mem_unmap);
      if (way == Way::trim) CHECK(test.memory.trim() == 30_MiB);
      if (way == Way::smaller_request) {
        test.allocator().deallocate(allocate(20_MiB));
        CHECK(test.used() == test.reserved());
        CHECK(test.used() <= 40_MiB);
      }
      test.memory.trim();
      CHECK(test.used() == 0);
      CHECK(test.reserved() == 0);
      check_whole(test.allocator());
    }
  }
}

TEST_CASE("memory that the driver neither releases nor maps back stays reserved") {
  enum class Way { trim, other_pool_needs, same_request };
  for (const Kind kind : {Kind::granules, Kind::contiguous}) {
    for (const DriverCall back : {DriverCall::mem_map, DriverCall::mem_set_access}) {
      for (const Way way : {Way::trim, Way::other_pool_needs, Way::same_request}) {
        CAPTURE(kind == Kind::contiguous);
        CAPTURE(std::string(kDriverCallNames[std::size_t(back)]));
        CAPTURE(static_cast<int>(way));
        RefusedReturn test(kind);
        test.allocator().deallocate(test.allocator().allocate_raw(20_MiB, test.work));
        test.tap.refuse_all(DriverCall::mem_release, CUDA_ERROR_UNKNOWN);
        test.tap.refuse_all(back, CUDA_ERROR_UNKNOWN);
        const std::string refusal =
            message_of<DriverError>([&] { static_cast<void>(test.allocator().trim()); });
        CHECK(contains(refusal, "the driver has taken back 0 B, and refuses more: cuMemRelease"));
        CHECK(test.allocator().counters().bytes_unreturnable.current == 20_MiB);
        CHECK(test.reserved() == 20_MiB);
        CHECK(test.used() == 20_MiB);
        CHECK_THROWS_AS(test.memory.trim(), DriverError);
        check_whole(test.allocator());

        test.tap.allow(back);
        if (way == Way::same_request) {  // uses it, but for a segment without access
          void* const again = test.allocator().allocate_raw(20_MiB, test.work);
          const bool is_new = kind == Kind::contiguous && back == DriverCall::mem_set_access;
          CHECK(test.used() == (is_new ? 40_MiB : 20_MiB));
          CHECK(test.used() == test.reserved());
          test.allocator().deallocate(again);
        }
        test.tap.allow(DriverCall::mem_release);
        if (way == Way::other_pool_needs) {
          MemoryPool other = test.memory.create_pool({.name = "other"});
          CHECK(other.allocate(64_MiB, test.work).data() != nullptr);
        }
        test.memory.trim();
        CHECK(test.used() == 0);
        CHECK(test.reserved() == 0);
        check_whole(test.allocator());
      }
    }
  }
}

TEST_CASE("memory that a growth cannot map, and the driver does not release, stays reserved") {
  for (const Kind kind : {Kind::granules, Kind::contiguous}) {
    for (const bool is_used_again : {false, true}) {
      CAPTURE(kind == Kind::contiguous);
      CAPTURE(is_used_again);
      RefusedReturn test(kind);
      test.tap.refuse_all(DriverCall::mem_map, CUDA_ERROR_UNKNOWN);
      test.tap.refuse_all(DriverCall::mem_release, CUDA_ERROR_UNKNOWN);
      const auto allocate = [&] { return test.allocator().allocate_raw(2_MiB, test.work); };
      CHECK_THROWS_AS(static_cast<void>(allocate()), DriverError);
      CHECK(test.allocator().counters().bytes_unreturnable.current == test.used());
      CHECK(test.used() > 0);
      const std::size_t used = test.used();
      check_whole(test.allocator());
      CHECK_THROWS_AS(static_cast<void>(allocate()), DriverError);
      CHECK(test.used() == used);
      CHECK_THROWS_AS(test.memory.trim(), DriverError);

      test.tap.allow(DriverCall::mem_map);
      if (is_used_again) {
        test.allocator().deallocate(allocate());
        CHECK(test.used() == used);
        CHECK(test.allocator().counters().bytes_unreturnable.current == 0);
      }
      test.tap.allow(DriverCall::mem_release);
      CHECK(test.memory.trim() == used);
      CHECK(test.used() == 0);
      CHECK(test.reserved() == 0);
      check_whole(test.allocator());
    }
  }
}

TEST_CASE("a pool wakes with memory that the driver neither released nor mapped back in sleep()") {
  RefusedReturn test(Kind::granules);
  MemoryPool pool = test.memory.create_pool({.name = "own"});
  const Allocation block = pool.allocate(20_MiB, test.work);
  test.tap.refuse_all(DriverCall::mem_release, CUDA_ERROR_UNKNOWN);
  test.tap.refuse_all(DriverCall::mem_map, CUDA_ERROR_UNKNOWN);
  CHECK_THROWS_AS(pool.sleep(), DriverError);
  CHECK(test.used() == 20_MiB);
  CHECK(pool.counters().bytes_reserved.current == 20_MiB);
  CHECK_THROWS_AS(pool.wake(), DriverError);
  CHECK(pool.is_asleep());
  CHECK(pool.counters().bytes_reserved.current == 20_MiB);
  test.tap.allow(DriverCall::mem_map);
  pool.wake();
  CHECK(test.used() == 20_MiB);
  CHECK(pool.counters().bytes_reserved.current == 20_MiB);
  CHECK(pool.counters().bytes_asleep.current == 0);
  check_whole(pool);
  test.tap.allow(DriverCall::mem_release);
  CHECK(pool.sleep() == 20_MiB);
  CHECK(test.used() == 0);
}

}  // namespace refused_return_test
