// SPDX-License-Identifier: Apache-2.0
// Page remap when the driver refuses single calls, or other threads act during them: the request
// fails or is served otherwise, nothing is lost, and the next call succeeds.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/holes_fixture.hpp"

namespace page_remap_fault_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranule = Holes::kGranuleBytes;

/// How often a call is made while `action` runs.
template <class Action>
std::uint64_t calls_during(const Driver& driver, DriverCall call, Action&& action) {
  const std::uint64_t before = driver.calls()[std::size_t(call)];
  action();
  return driver.calls()[std::size_t(call)] - before;
}

}  // namespace

TEST_CASE("any driver call of stitching and growing at once may fail once") {
  // Eight holes and two new granules.
  constexpr std::size_t bytes = 10 * kGranule - 1000;
  for (std::size_t index = 0; index < kDriverCallCount; ++index) {
    const auto call = static_cast<DriverCall>(index);
    CAPTURE(kDriverCallNames[index]);
    std::uint64_t calls = 0;
    {
      Holes undisturbed;
      calls = calls_during(undisturbed.driver, call,
                           [&] { undisturbed.allocator->allocate(bytes, undisturbed.own); });
      REQUIRE(undisturbed.counters().page_remaps == 10);
    }
    for (std::uint64_t nth = 1; nth <= calls; ++nth) {
      for (const CUresult code : {CUDA_ERROR_UNKNOWN, CUDA_ERROR_OUT_OF_MEMORY}) {
        CAPTURE(nth);
        CAPTURE(int(code));
        Holes test;
        const sim::Live before = test.simulator.live();
        test.tap.refuse(call, code, static_cast<int>(nth));
        void* data = nullptr;
        try {
          data = test.allocator->allocate(bytes, test.own);
        } catch (const Error& error) {
          CHECK((error.code() == Errc::driver || error.code() == Errc::out_of_memory));
          sim::Live after = test.simulator.live();
          after.reservations = before.reservations;  // for windows, made once
          CHECK(after == before);
          CHECK(test.counters().bytes_reserved.current == 16 * kGranule);
        }
        test.allocator->validate();
        if (data == nullptr) data = test.allocate(bytes, test.own);
        test.write(data, bytes, 0xee);
        CHECK(test.holds(data, bytes, 0xee));
        CHECK(test.walls_hold());
        CHECK(test.simulator.device_bytes_used(0) == test.counters().bytes_reserved.current);
        test.free(data);
        CHECK(test.allocate(bytes, test.own) == data);
      }
    }
  }
}

TEST_CASE("if the driver cannot map holes, new contiguous memory serves the request") {
  Holes test;
  test.tap.refuse(DriverCall::mem_map, CUDA_ERROR_OUT_OF_MEMORY, 3);
  void* const data = test.allocate(8 * kGranule, test.own);
  CHECK(test.counters().page_remaps == 0);
  CHECK(test.counters().bytes_reserved.current > 16 * kGranule);
  CHECK(test.counters().out_of_memory == 0);
  test.write(data, 8 * kGranule, 0x31);
  CHECK(test.walls_hold());
  // The holes are still there, and the next request has them.
  void* const joined = test.allocate(8 * kGranule, test.own);
  CHECK(test.counters().page_remaps == 8);
  test.write(joined, 8 * kGranule, 0x32);
  CHECK(test.holds(data, 8 * kGranule, 0x31));
}

TEST_CASE("without address space for windows, new memory serves requests") {
  Holes test;
  test.tap.refuse_all(DriverCall::mem_address_reserve, CUDA_ERROR_OUT_OF_MEMORY);
  test.free(test.allocate(8 * kGranule, test.own));
  CHECK(test.counters().page_remaps == 0);
  test.tap.allow(DriverCall::mem_address_reserve);
  void* const all = test.allocate(AllocatorFixture::kDeviceBytes - 8 * kGranule, test.own);
  CHECK(test.counters().page_remaps > 0);
  test.write(all, AllocatorFixture::kDeviceBytes - 8 * kGranule, 0x33);
  CHECK(test.walls_hold());
}

TEST_CASE("memory that other threads allocate and free while granules are joined is not joined") {
  Holes test(20);  // ten holes; eight are joined
  void* taken = nullptr;
  test.tap.before(DriverCall::mem_map, [&] {
    taken = test.allocator->allocate(kGranule, test.own);
    test.allocator->deallocate(std::exchange(test.row[4], nullptr));
    test.allocator->deallocate(std::exchange(test.row[6], nullptr));
  });
  void* const data = test.allocate(8 * kGranule, test.own);
  REQUIRE(taken != nullptr);
  test.write(taken, kGranule, 0x41);
  test.write(data, 8 * kGranule, 0x42);
  CHECK(test.holds(taken, kGranule, 0x41));
  CHECK(test.holds(data, 8 * kGranule, 0x42));
  for (const std::size_t index : {0, 2, 8, 10})
    CHECK(test.holds(test.row[index], kGranule, static_cast<unsigned char>(index)));
  CHECK(test.counters().bytes_reserved.current == 20 * kGranule);
}

TEST_CASE("frees during a failed stitching merge with their neighbors") {
  Holes test(32);
  test.tap.before(DriverCall::mem_set_access, [&] {
    for (const std::size_t index : {2, 4}) test.allocator->deallocate(test.row[index]);
  });
  test.tap.refuse(DriverCall::mem_set_access, CUDA_ERROR_UNKNOWN);
  CHECK_THROWS_AS(test.allocator->allocate(16 * kGranule, test.own), DriverError);
  test.allocator->validate();
  CHECK(test.counters().bytes_active.current == 14 * kGranule);
  void* const data = test.allocate(18 * kGranule, test.own);
  test.write(data, 18 * kGranule, 0x51);
  for (const std::size_t index : {0, 6, 8, 30})
    CHECK(test.holds(test.row[index], kGranule, static_cast<unsigned char>(index)));
}

TEST_CASE("a window that cannot be unmapped does not prevent trimming or allocating") {
  Holes test;
  void* const first = test.allocate(8 * kGranule, test.own);
  test.free(first);
  test.tap.refuse(DriverCall::mem_unmap, CUDA_ERROR_UNKNOWN);
  CHECK(test.allocator->trim(0) == 8 * kGranule);
  test.allocator->validate();
  CHECK(test.reports.count(Severity::error) == 1);
  void* const data = test.allocate(12 * kGranule, test.own);
  test.write(data, 12 * kGranule, 0x61);
  CHECK(test.holds(data, 12 * kGranule, 0x61));
  CHECK(test.walls_hold());
  // The mapping that is left would be found alive at the end.
  const ContextScope scope(test.context);
  for (std::size_t granule = 0; granule < 8; ++granule) {
    const CUdeviceptr window = reinterpret_cast<std::uintptr_t>(first) + granule * kGranule;
    if (!test.simulator.peek(window, 1).empty()) test.driver.mem_unmap(window, kGranule);
  }
}

}  // namespace page_remap_fault_test
