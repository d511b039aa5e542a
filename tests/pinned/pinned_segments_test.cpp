// SPDX-License-Identifier: Apache-2.0
#include "pinned/pinned_segments.hpp"

#include <cstddef>
#include <cstdint>
#include <sys/mman.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "support/errors.hpp"
#include "support/tapped_device.hpp"

namespace pinned_segments_test {

using namespace berth;
using namespace berth::test;

namespace {

using Options = PinnedSegments::Options;

sim::Config machine(std::uint64_t host_bytes = 64_MiB, int devices = 1) {
  sim::Config config;
  config.devices = devices;
  config.host_memory = host_bytes;
  return config;
}

void* no_pages(std::size_t) noexcept {
  return nullptr;
}

void* last_mapped = nullptr;
void* map_and_note(std::size_t bytes) noexcept {
  return last_mapped = map_host_pages(bytes);
}

bool is_mapped(void* data) {
  unsigned char in_memory = 0;
  return mincore(data, 1, &in_memory) == 0;
}

struct SegmentsTest : TappedDevice {
  explicit SegmentsTest(const Options& options, const sim::Config& config = machine())
      : TappedDevice(config), segments(registry, options) {}
  ~SegmentsTest() { segments.give_back_all(heap); }

  bool obtain(std::size_t bytes) {
    auto growth = segments.plan_growth(heap, bytes, kUnowned, SegmentSource::Stitching::yes);
    REQUIRE(growth.has_value());
    if (!segments.obtain(*growth)) {
      segments.cancel_growth(heap, *growth);
      return false;
    }
    segments.finish_growth(heap, *growth, 1, kUnowned);
    touch(growth->address, growth->bytes);
    return true;
  }
  static void touch(std::uintptr_t address, std::size_t bytes) {
    auto* const data = reinterpret_cast<volatile unsigned char*>(address);
    data[0] = 1;
    data[bytes - 1] = 2;
    CHECK(int{data[0]} + int{data[bytes - 1]} == 3);
  }
  void give_back(std::size_t bytes) {
    for (SegmentSource::Range& range : segments.plan_return(heap, bytes)) {
      if (!segments.give_back(range)) {
        segments.finish_return(heap, std::move(range));
      } else {
        segments.cancel_return(heap, std::move(range));
      }
    }
    heap.validate();
  }
  [[nodiscard]] std::size_t registrations() const { return simulator.live().host_registrations; }
  [[nodiscard]] std::size_t allocations() const { return simulator.live().host_allocations; }

  BlockHeap heap;
  PinnedSegments segments;
};

constexpr Options kRegistering = {.segment_bytes = 1_MiB, .prefault_threads = 2};
constexpr Options kAllocating = {.segment_bytes = 1_MiB};

}  // namespace

TEST_CASE("pinned segments are registered pages, in multiples of 4 KiB") {
  SegmentsTest test(kRegistering);
  CHECK(
      test.segments.plan_growth(test.heap, 512_KiB - 512, kUnowned, SegmentSource::Stitching::yes)
          ->bytes == 1_MiB);
  CHECK(test.segments.plan_growth(test.heap, 3_MiB + 1, kUnowned, SegmentSource::Stitching::yes)
            ->bytes == 3_MiB + 4_KiB);
  CHECK(test.obtain(3_MiB + 1));
  CHECK(test.registrations() == 1);
  CHECK(test.allocations() == 0);
  CHECK(test.segments.registered() == 1);
  test.give_back(1);
  CHECK(test.registrations() == 0);
  CHECK(test.segments.capacity_bytes() >= std::size_t{1} << 62);
}

TEST_CASE("without prefault threads, and for write-combined memory, the driver allocates") {
  Options write_combined = kRegistering;
  write_combined.write_combined = true;
  for (const Options& options : {kAllocating, write_combined}) {
    SegmentsTest test(options);
    CHECK(test.obtain(3_MiB));
    CHECK(test.allocations() == 1);
    CHECK(test.registrations() == 0);
    unsigned flags = 0;
    const ContextScope scope(test.context);
    REQUIRE(sim::berth_sim_cuMemHostGetFlags(
                &flags, reinterpret_cast<void*>(test.heap.segments().begin()->first)) ==
            CUDA_SUCCESS);
    CHECK((flags & CU_MEMHOSTALLOC_PORTABLE) != 0);
    CHECK(((flags & CU_MEMHOSTALLOC_WRITECOMBINED) != 0) == options.write_combined);
  }
}

TEST_CASE("a registration that fails falls back to the driver's own pages, once") {
  SegmentsTest test(kRegistering);
  test.tap.refuse(DriverCall::mem_host_register, CUDA_ERROR_UNKNOWN);
  CHECK(test.obtain(2_MiB));
  CHECK(test.allocations() == 1);
  CHECK(test.reports.mention("CUDA_ERROR_UNKNOWN"));
  CHECK(test.obtain(2_MiB));
  CHECK(test.registrations() == 1);
  CHECK(test.allocations() == 1);
  test.tap.refuse(DriverCall::mem_host_register, CUDA_ERROR_UNKNOWN);
  CHECK(test.obtain(2_MiB));
  CHECK(test.reports.all().size() == 1);
}

TEST_CASE("pages of failed registrations and returned segments are unmapped") {
  Options options = kRegistering;
  options.map = map_and_note;
  SegmentsTest test(options);
  for (const CUresult failure : {CUDA_ERROR_UNKNOWN, CUDA_ERROR_OUT_OF_MEMORY}) {
    test.tap.refuse(DriverCall::mem_host_register, failure);
    CHECK(test.obtain(64_MiB / 4));
    REQUIRE(last_mapped != nullptr);
    // The driver's own pages may be where they were.
    const bool is_reused =
        test.heap.segments().contains(reinterpret_cast<std::uintptr_t>(last_mapped));
    CHECK((is_reused || !is_mapped(last_mapped)));
    test.give_back(1);
  }
  CHECK(test.obtain(2_MiB));
  REQUIRE(is_mapped(last_mapped));
  test.give_back(1);
  CHECK_FALSE(is_mapped(last_mapped));
}

TEST_CASE("if registration and allocation are both out of memory, no memory is obtained") {
  SegmentsTest test(kRegistering, machine(8_MiB));
  CHECK_FALSE(test.obtain(9_MiB));
  CHECK(test.registrations() + test.allocations() == 0);
  CHECK(test.reports.all().empty());
  CHECK(test.obtain(8_MiB));
}

TEST_CASE("if registration and allocation both fail, the error names the driver call") {
  SegmentsTest test(kRegistering);
  test.tap.refuse(DriverCall::mem_host_register, CUDA_ERROR_UNKNOWN);
  test.tap.refuse(DriverCall::mem_host_alloc, CUDA_ERROR_UNKNOWN);
  CHECK(contains(message_of<DriverError>([&] { return test.obtain(2_MiB); }), "cuMemHostAlloc"));
  CHECK(test.obtain(2_MiB));
  CHECK(test.registrations() == 1);
}

TEST_CASE("registration is tried once on a system that does not support it") {
  for (const CUresult refusal : {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_NOT_PERMITTED}) {
    SegmentsTest test(kRegistering);
    test.tap.refuse_all(DriverCall::mem_host_register, refusal);
    CHECK(test.obtain(2_MiB));
    CHECK(test.obtain(2_MiB));
    CHECK(test.allocations() == 2);
    CHECK(test.driver.calls()[std::size_t(DriverCall::mem_host_register)] == 1);
    test.tap.allow(DriverCall::mem_host_register);
  }
}

TEST_CASE("if the system has no pages, the driver allocates") {
  Options options = kRegistering;
  options.map = no_pages;
  SegmentsTest test(options);
  CHECK(test.obtain(2_MiB));
  CHECK(test.allocations() == 1);
  CHECK(test.reports.all().empty());
}

TEST_CASE("the driver allocates if a device sees registered memory at another address") {
  SUBCASE("a device reports it") {
    SegmentsTest test(kRegistering, [] {
      sim::Config config = machine(64_MiB, 2);
      config.same_host_address = false;
      return config;
    }());
    CHECK(test.obtain(2_MiB));
    CHECK(test.obtain(2_MiB));
    CHECK(test.allocations() == 2);
    CHECK(test.driver.calls()[std::size_t(DriverCall::device_get_attribute)] <= 2);
  }
  SUBCASE("the query of a device fails, and is repeated") {
    SegmentsTest test(kRegistering);
    test.tap.refuse(DriverCall::device_get_attribute, CUDA_ERROR_UNKNOWN);
    CHECK(test.obtain(2_MiB));
    CHECK(test.allocations() == 1);
    CHECK(test.obtain(2_MiB));
    CHECK(test.registrations() == 1);
  }
}

TEST_CASE("the driver allocates segments of half a TiB, which cannot be registered") {
  SegmentsTest test(kRegistering, machine(2_GiB * 512));
  CHECK(test.obtain(PinnedSegments::kRegistrationBytesMax));
  CHECK(test.allocations() == 1);
  CHECK(test.driver.calls()[std::size_t(DriverCall::mem_host_register)] == 0);
}

TEST_CASE("a segment that the driver fails to unpin is kept, and a retry returns it") {
  for (const Options& options : {kRegistering, kAllocating}) {
    SegmentsTest test(options);
    CHECK(test.obtain(2_MiB));
    const std::uintptr_t address = test.heap.segments().begin()->first;
    for (const DriverCall call : {DriverCall::mem_host_unregister, DriverCall::mem_free_host}) {
      test.tap.refuse(call, CUDA_ERROR_UNKNOWN);
    }
    test.give_back(1);
    REQUIRE(test.heap.segments().size() == 1);
    test.touch(address, 2_MiB);
    CHECK(test.reports.mention("CUDA_ERROR_UNKNOWN"));
    test.give_back(1);
    CHECK(test.heap.segments().empty());
    CHECK(test.registrations() + test.allocations() == 0);
  }
}

TEST_CASE("the least recently used segments are returned first, and only as many as needed") {
  SegmentsTest test(kRegistering);
  std::vector<std::uintptr_t> addresses;
  for (const std::size_t bytes : {3_MiB, 2_MiB, 4_MiB}) {
    CHECK(test.obtain(bytes));
    Block* const block = test.heap.take(bytes, bytes, kUnowned);
    REQUIRE(block != nullptr);
    addresses.push_back(block->address);
  }
  for (const std::size_t index : {1U, 2U, 0U}) {
    test.heap.release(*test.heap.find(reinterpret_cast<void*>(addresses[index])), kUnowned);
  }
  test.give_back(1);
  CHECK_FALSE(test.heap.segments().contains(addresses[1]));
  CHECK(test.heap.segments().size() == 2);
  test.give_back(4_MiB);
  CHECK(test.heap.segments().contains(addresses[0]));
  CHECK(test.heap.segments().size() == 1);
}

TEST_CASE("a failure to bind pages to a missing NUMA node is reported once") {
  Options options = kRegistering;
  options.node = 1022;
  SegmentsTest test(options);
  CHECK(test.obtain(2_MiB));
  CHECK(test.obtain(2_MiB));
  CHECK(test.registrations() == 2);
  REQUIRE(test.reports.all().size() == 1);
  CHECK(test.reports.mention("NUMA node 1022"));
}

TEST_CASE("pinning and unpinning create only the context of the current device") {
  for (const Options& options : {kRegistering, kAllocating}) {
    SegmentsTest test(options, machine(64_MiB, 2));
    test.registry.set_current(Device::cuda(1));
    CHECK(test.obtain(1_MiB));
    test.give_back(1);
    int active = -1;
    unsigned flags = 0;
    test.driver.primary_ctx_get_state(CUdevice{0}, &flags, &active);
    CHECK(active == 0);
    test.driver.primary_ctx_get_state(CUdevice{1}, &flags, &active);
    CHECK(active == 1);
    test.driver.ctx_set_current(CUcontext{nullptr});
  }
}

}  // namespace pinned_segments_test
