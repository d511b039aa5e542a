// SPDX-License-Identifier: Apache-2.0
// Host memory, pinned and pageable, used by streams whose last work the driver did not mark when
// they ended. A destroyed handle does not reach the driver.
#include <cstdint>
#include <optional>
#include <sys/mman.h>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/host_allocator.hpp"

#include "memory/order/device_event_pools.hpp"
#include "pinned/pinned_registrations.hpp"
#include "support/simulation.hpp"
#include "support/tapped_device.hpp"

namespace stream_ends_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 1_MiB;

/// A stream that ends while it uses memory.
struct EndTest : TappedDevice {
  EndTest() : TappedDevice(manual_progress()) {}

  /// Ends the stream while the driver refuses every capture query.
  void end_unknown() {
    tap.refuse_all(DriverCall::stream_is_capturing, CUDA_ERROR_UNKNOWN);
    gone.reset();
    tap.allow(DriverCall::stream_is_capturing);
    asked = questions();
  }
  /// Calls that would name the stream.
  [[nodiscard]] std::uint64_t questions() const {
    return simulator.calls("cuStreamIsCapturing") + simulator.calls("cuStreamSynchronize");
  }

  std::optional<Stream> gone{stream()};
  std::uint64_t asked = 0;  ///< questions() when the stream had ended
};

struct RegistrationTest : EndTest {
  RegistrationTest()
      : pages(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(pages != MAP_FAILED);
    registrations.add(pages, kBytes);
    registrations.record_stream(pages, *gone);
    log.submit(*gone, "use");
  }
  ~RegistrationTest() {
    simulator.run_all();
    munmap(pages, kBytes);
  }

  DeviceEventPools pools{registry};
  PinnedRegistrations registrations{registry, pools};
  void* pages;
};

struct HostTest : EndTest {
  HostTest() {
    memory.record_stream(data, *gone);
    log.submit(*gone, "use");
  }
  ~HostTest() { simulator.run_all(); }

  [[nodiscard]] std::uint64_t pending() const { return memory.counters().blocks_pending.current; }

  HostAllocator memory{registry, {}};
  void* data = memory.allocate_raw(kBytes);
};

}  // namespace

TEST_CASE_FIXTURE(RegistrationTest,
                  "a registration waits for an ended stream that could not be queried at once") {
  tap.refuse(DriverCall::stream_is_capturing, CUDA_ERROR_UNKNOWN);
  gone.reset();
  asked = questions();
  CHECK_FALSE(log.is_done("use"));
  registrations.remove(pages);
  CHECK(log.is_done("use"));
  CHECK(questions() == asked);
}

TEST_CASE_FIXTURE(RegistrationTest,
                  "a registration forgets an ended stream that could not be queried at all") {
  end_unknown();
  const std::size_t reported = reports.all().size();
  CHECK(reports.mention("the completion of its work is unknown"));
  registrations.remove(pages);
  CHECK(questions() == asked);
  CHECK(reports.all().size() == reported);
}

TEST_CASE_FIXTURE(HostTest,
                  "host memory waits for an ended stream that could not be queried at once") {
  tap.refuse(DriverCall::stream_is_capturing, CUDA_ERROR_UNKNOWN);
  gone.reset();
  asked = questions();
  CHECK_FALSE(log.is_done("use"));
  memory.deallocate(data);
  CHECK(memory.release_unused({}) == 0);
  CHECK(questions() == asked);
  simulator.run_all();
  CHECK(memory.release_unused({}) == kBytes);
  CHECK(pending() == 0);
}

TEST_CASE_FIXTURE(
    HostTest, "host memory forgets an ended stream that could not be queried at all, and stays") {
  bool is_freed_later = false;
  SUBCASE("live") {
    is_freed_later = true;
  }
  SUBCASE("freed, and not marked") {
    tap.refuse(DriverCall::event_record, CUDA_ERROR_UNKNOWN);
    memory.deallocate(data);
  }
  end_unknown();
  CHECK(reports.mention("stays until the end"));
  if (is_freed_later) memory.deallocate(data);
  for (int round = 0; round < 3; ++round) memory.deallocate(memory.allocate_raw(1));
  simulator.run_all();
  CHECK(memory.release_unused({}) == 0);
  CHECK(pending() == 1);
  CHECK(questions() == asked);
}

}  // namespace stream_ends_test
