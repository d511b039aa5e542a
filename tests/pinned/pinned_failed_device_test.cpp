// SPDX-License-Identifier: Apache-2.0
// Pinned memory that one device used when it failed, while other devices work.
#include <chrono>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include "pinned/pinned_fixture.hpp"

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

}  // namespace pinned_failed_device_test
