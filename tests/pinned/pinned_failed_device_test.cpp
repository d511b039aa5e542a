// SPDX-License-Identifier: Apache-2.0
// Pinned memory that one device used when it failed, or that awaits a device which cannot be waited
// for, while other devices work.
#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include "pinned/pinned_fixture.hpp"
#include "support/captured_graph.hpp"
#include "support/foreign_stream.hpp"

namespace pinned_failed_device_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Two devices, of which the second fails while it uses a block that has been freed.
struct FailedDevice : PinnedTest {
  FailedDevice() : PinnedTest(manual_progress(machine_of_nodes(2))), failed(stream(1)) {
    {
      const Allocation block = memory.allocate(1_MiB);
      simulator.launch(
          failed.ref().native(),
          {.name = "fault",
           .uses = {sim::MemoryUse::write(reinterpret_cast<void*>(0x123456789000), 64)}});
      memory.record_use(block.data(), failed);
    }
    CHECK_THROWS_AS(failed.ref().sync(), DriverError);
    errors_expected = true;
  }

  Stream failed;
};

}  // namespace

TEST_CASE_FIXTURE(FailedDevice, "a device that has failed does not stop pinned memory of others") {
  const Stream healthy = stream(0);
  Allocation large = memory.allocate(20_MiB);
  memory.record_use(large.data(), healthy);
  large.reset();
  healthy.ref().sync();
  CHECK_NOTHROW(static_cast<void>(memory.release_unused(std::chrono::nanoseconds(0))));
  CHECK_NOTHROW(static_cast<void>(memory.trim(0)));
  CHECK(counters().blocks_pending.current == 1);  // that of the failed device
  const Allocation larger = memory.allocate(40_MiB);
  CHECK(reports.mention("a stream cannot be queried"));
}

TEST_CASE_FIXTURE(FailedDevice, "copies of pageable memory go on beside a device that has failed") {
  const Stream healthy = stream(0);
  const Allocation target = runtime->memory(Device::cuda(0)).allocate(64_MiB, healthy);
  std::vector<std::byte> source(64_MiB, std::byte{7});
  std::vector<std::byte> back(64_MiB);
  runtime->copier().copy(target.data(), source.data(), source.size(), healthy);
  runtime->copier().copy(back.data(), target.data(), back.size(), healthy);
  CHECK(back == source);
}

TEST_CASE("memory that awaits an idle device is recovered while another cannot be waited for") {
  PinnedTest test(machine_of_nodes(2), {.bytes_reserved_max = 16_MiB, .prefault_threads = 0});
  const Stream captured = test.stream(0);
  const Stream other = test.stream(0);
  std::array<std::vector<StreamRef>, 2> gone;
  for (const int device : {0, 1}) {
    for (const std::size_t bytes : {1_MiB, 6_MiB}) {
      const Allocation block = test.memory.allocate(bytes);
      gone[std::size_t(device)].push_back(disown(test.stream(device)));
      block.record_stream(gone[std::size_t(device)].back());
    }
  }
  for (const std::vector<StreamRef>& of_device : gone) {
    for (const StreamRef stream : of_device) destroy_disowned(stream);
  }
  begin_capture(captured);
  REQUIRE(captured.ref().is_capturing());
  bool has_failed = false;
  SUBCASE("a stream of it is captured") {}
  SUBCASE("it has failed") {
    has_failed = test.errors_expected = true;
    test.simulator.launch(
        other.ref().native(),
        {.name = "fault",
         .uses = {sim::MemoryUse::write(reinterpret_cast<void*>(0x123456789000), 64)}});
    CHECK_THROWS_AS(other.ref().sync(), DriverError);
  }
  const std::uint64_t waits = driver_calls(*test.runtime, "cuCtxSynchronize");
  {
    const Allocation large = test.memory.allocate(6_MiB);
    CHECK(test.counters().blocks_pending.current == 2);
    CHECK(driver_calls(*test.runtime, "cuCtxSynchronize") == waits + 1);
    CHECK_THROWS_AS(static_cast<void>(test.memory.allocate(6_MiB)), OutOfMemory);
  }
  if (!has_failed) CapturedGraph(captured).launch();
}

}  // namespace pinned_failed_device_test
