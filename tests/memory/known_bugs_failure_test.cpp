// SPDX-License-Identifier: Apache-2.0
// Bug classes known from other allocators, after failures: of the driver during a mapping, of the
// device for good, of a caller that frees memory with the wrong allocator.
#include <cstdint>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "memory/allocator_fixture.hpp"
#include "memory/memory_fixture.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/second_thread.hpp"

namespace known_bugs_failure_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Whether each byte that the allocator counts as its own is mapped.
bool all_mapped(const AllocatorFixture& test) {
  for (const SegmentInfo& segment : test.allocator->snapshot().segments) {
    if (test.simulator.peek(segment.address, segment.bytes).size() != segment.bytes) return false;
  }
  return true;
}

}  // namespace

// pytorch/pytorch issue 188008
TEST_CASE("a failing cuMemCreate, cuMemMap or cuMemSetAccess leaves no block active but unmapped") {
  constexpr std::size_t bytes = 8_MiB;  // four granules
  for (const DriverCall call :
       {DriverCall::mem_create, DriverCall::mem_map, DriverCall::mem_set_access}) {
    for (const CUresult code : {CUDA_ERROR_UNKNOWN, CUDA_ERROR_OUT_OF_MEMORY}) {
      for (int nth = 1; nth <= (call == DriverCall::mem_set_access ? 1 : 4); ++nth) {
        CAPTURE(kDriverCallNames[std::size_t(call)]);
        CAPTURE(int(code));
        CAPTURE(nth);
        AllocatorFixture test;
        const Stream own = test.stream();
        test.allocate(3_MiB, own);
        const sim::Live before = test.simulator.live();
        const MemoryCounters counters = test.counters();
        test.tap.refuse(call, code, nth);
        void* data = nullptr;
        if (code == CUDA_ERROR_UNKNOWN) {
          message_of<DriverError>([&] { return test.allocator->allocate(bytes, own); });
          CHECK(test.simulator.live() == before);
          CHECK(same_levels(test.counters(), counters));
          CHECK(all_mapped(test));
        } else {
          data = test.allocate(bytes, own);  // there is room, the second time
        }
        test.allocator->validate();
        if (data == nullptr) data = test.allocate(bytes, own);
        CHECK(all_mapped(test));
        CHECK(test.simulator.device_bytes_used(0) == test.counters().bytes_reserved.current);
        const ContextScope scope(test.context);
        test.driver.memset_d8_async(CUdeviceptr{reinterpret_cast<std::uintptr_t>(data)},
                                    std::uint8_t{1}, bytes, own.ref().native());
        own.ref().sync();
      }
    }
  }
}

// pytorch/pytorch pull request 191076
TEST_CASE("a failing cuMemUnmap or cuMemRelease loses no memory in use") {
  for (int nth = 1; nth <= 4; ++nth) {
    CAPTURE(nth);
    AllocatorFixture test;
    const Stream own = test.stream();
    test.free(test.allocate(8_MiB, own));
    test.tap.refuse(DriverCall::mem_unmap, CUDA_ERROR_UNKNOWN, nth);
    test.allocator->trim(0);
    test.allocator->validate();
    CHECK(test.reports.count(Severity::error) == 1);
    CHECK(test.allocate(AllocatorFixture::kDeviceBytes, own) != nullptr);
    CHECK(all_mapped(test));
    CHECK(test.simulator.device_bytes_used(0) == AllocatorFixture::kDeviceBytes);
  }
}

// pytorch/pytorch issue 188008
TEST_CASE("destructors report memory that the driver refuses to take back, and do not throw") {
  for (const DriverCall call : {DriverCall::mem_unmap, DriverCall::mem_release,
                                DriverCall::mem_address_free, DriverCall::ctx_get_current}) {
    CAPTURE(kDriverCallNames[std::size_t(call)]);
    // In a child, because what is not taken back would be found alive.
    const auto code = exit_code_of([call] {
      AllocatorFixture test;
      const Stream own = test.stream();
      test.allocate(3_MiB, own);
      test.free(test.allocate(8_MiB, own));
      test.context.remove_observer(*test.allocator);
      test.tap.refuse_all(call, CUDA_ERROR_UNKNOWN);
      test.allocator.reset();
      _exit(test.reports.count(Severity::error) > 0 ? 0 : 1);
      return 0;
    });
    CHECK(code == 0);
  }
}

// pytorch/pytorch issues 13751 and 178154
TEST_CASE("after a sticky error of the context no free and no destructor throws") {
  for (const Backing backing : {Backing::arena, Backing::segments}) {
    const auto code = exit_code_of([backing] {
      AllocatorFixture test({.backing = backing});
      const Stream own = test.stream();
      std::optional<Stream> user(test.stream());
      void* const plain = test.allocate(3_MiB, own);
      void* const recorded = test.allocate(3_MiB, own);
      void* const pending = test.allocate(3_MiB, own);
      void* const live = test.allocate(3_MiB, own);
      test.allocator->record_stream(recorded, *user);
      test.allocator->record_stream(live, *user);
      test.free_used_by(pending, *user, "use");
      for (std::size_t call = 0; call < kDriverCallCount; ++call)
        test.tap.refuse_all(static_cast<DriverCall>(call), CUDA_ERROR_ILLEGAL_ADDRESS);
      test.free(plain);
      test.free(recorded);
      // What cannot be had fails; what the thread keeps is served, and nothing is lost in the
      // books.
      const std::string message =
          message_of<DriverError>([&] { return test.allocator->allocate(30_MiB, own); });
      const bool is_named = contains(message, "(700)");  // the driver does not say its name
      const bool is_served = test.allocate(3_MiB, own) == plain;
      const bool is_pending = test.counters().blocks_pending.current == 2;
      user.reset();
      test.allocator->validate();
      test.context.remove_observer(*test.allocator);
      test.allocator.reset();
      _exit(is_named && is_served && is_pending ? 0 : 1);
      return 0;
    });
    CHECK(code == 0);
  }
}

// A failure that was tolerated must not be found by the next call, as cudaGetLastError finds it.
TEST_CASE("a recovered driver failure is not reported to the next caller") {
  AllocatorFixture test;
  const Stream own = test.stream();
  const Stream user = test.stream();
  test.tap.refuse(DriverCall::mem_create, CUDA_ERROR_OUT_OF_MEMORY);
  void* const data = test.allocate(8_MiB, own);
  test.allocator->record_stream(data, user);
  test.tap.refuse(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
  test.free(data);
  CHECK(test.reports.count(Severity::warning) == 1);
  CHECK(test.allocate(4_MiB, own) != nullptr);
  const std::string message =
      message_of<OutOfMemory>([&] { return test.allocate(AllocatorFixture::kDeviceBytes, own); });
  CHECK_FALSE(contains(message, "CUDA_ERROR_UNKNOWN"));
  CHECK(test.reports.count(Severity::error) == 0);
}

// pytorch/pytorch issue 146431
TEST_CASE("a block freed with the wrong allocator is refused and stays live") {
  sim::Config config;
  config.devices = 2;
  Simulation test(config);
  const Stream streams[] = {test.runtime->create_stream(Device::cuda(0)),
                            test.runtime->create_stream(Device::cuda(1))};
  Allocator* const allocators[] = {&test.runtime->memory(Device::cuda(0)),
                                   &test.runtime->memory(Device::cuda(1)),
                                   &test.runtime->pinned_memory()};
  void* const blocks[] = {test.runtime->memory(Device::cuda(0)).allocate_raw(1_MiB, streams[0]),
                          test.runtime->memory(Device::cuda(1)).allocate_raw(1_MiB, streams[1]),
                          test.runtime->pinned_memory().allocate_raw(1_MiB)};
  for (std::size_t wrong = 0; wrong < 3; ++wrong) {
    for (std::size_t right = 0; right < 3; ++right) {
      if (wrong == right) continue;
      CAPTURE(wrong);
      CAPTURE(right);
      message_of<InvalidArgument>([&] {
        allocators[wrong]->deallocate(blocks[right]);
        return 0;
      });
      CHECK(allocators[right]->counters().blocks_allocated.current == 1);
    }
  }
  for (std::size_t right = 0; right < 3; ++right) {
    allocators[right]->deallocate(blocks[right]);
    check_whole(*allocators[right]);
    CHECK(allocators[right]->counters().blocks_allocated.current == 0);
  }
}

// pytorch/pytorch pull request 169699
TEST_CASE("an allocator may be destroyed with live, cached and pending blocks") {
  SecondThread second;  // goes on when an allocator ends, with a cache that is of no use any more
  for (int generation = 0; generation < 3; ++generation) {
    CAPTURE(generation);
    AllocatorFixture test;
    const Stream own = test.stream();
    const Stream user = test.stream();
    bool owns_all = true;
    second.run([&] {
      const auto allocate = [&] {
        void* const data = test.allocator->allocate(4_MiB, own);
        owns_all = owns_all && test.allocator->owns(data);
        return data;
      };
      allocate();
      void* const cached = allocate();
      void* const pending = allocate();
      test.allocator->deallocate(cached);
      test.allocator->record_stream(pending, user);
      test.log.submit(user, "use");
      test.allocator->deallocate(pending);
    });
    CHECK(owns_all);
    const MemoryCounters counters = test.counters();
    CHECK(counters.allocations == 3);
    CHECK(counters.blocks_allocated.current == 1);
    CHECK(counters.blocks_pending.current == 1);
    test.context.remove_observer(*test.allocator);
    test.allocator.reset();
    CHECK(test.log.is_done("use"));
    CHECK(test.simulator.device_bytes_used(0) == 0);
  }
}

// pytorch/pytorch issue 36408.
TEST_CASE("after the driver has shut down, an allocator is destroyed without reports") {
  for (const Backing backing : {Backing::arena, Backing::segments}) {
    const auto code = exit_code_of([backing] {
      AllocatorFixture test({.backing = backing});
      const Stream own = test.stream();
      const Stream user = test.stream();
      test.allocate(3_MiB, own);
      test.free(test.allocate(8_MiB, own));
      void* const recorded = test.allocate(3_MiB, own);
      test.allocator->record_stream(recorded, user);
      test.free_used_by(test.allocate(3_MiB, own), user, "use");
      for (std::size_t call = 0; call < kDriverCallCount; ++call)
        test.tap.refuse_all(static_cast<DriverCall>(call), CUDA_ERROR_DEINITIALIZED);
      test.free(recorded);
      test.context.remove_observer(*test.allocator);
      test.allocator.reset();
      _exit(test.reports.all().empty() ? 0 : 1);
      return 0;
    });
    CHECK(code == 0);
  }
}

}  // namespace known_bugs_failure_test
