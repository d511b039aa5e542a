// SPDX-License-Identifier: Apache-2.0
// Copies of pageable memory that the device accesses by itself, as on Grace Hopper: the driver
// makes them, in the device's own time.
#include <algorithm>
#include <cstddef>
#include <memory>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "copy/copy_fixture.hpp"
#include "support/captured_graph.hpp"

namespace pageable_access_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 20_MiB;

sim::Config machine(sim::PageableAccess access, sim::Progress progress) {
  sim::Config config;
  config.pageable_access = access;
  config.progress = progress;
  return config;
}

struct InReach : CopyTest {
  explicit InReach(sim::Progress progress = sim::Progress::manual)
      : CopyTest(machine(sim::PageableAccess::host_page_tables, progress)) {}

  const Stream own = stream();
  Buffer device{*this, Kind::device, kBytes};
  Bytes host = pattern(kBytes, 1);
};

}  // namespace

TEST_CASE("a device that uses the host's page tables copies pageable memory directly") {
  InReach test;
  test.log.submit(test.own, "kernel");
  const Transfer in = test.copier.start(test.device.data(), test.host.data(), kBytes, test.own);
  Bytes back(kBytes);
  const Transfer out = test.copier.start(back.data(), test.device.data(), kBytes, test.own);
  CHECK_FALSE(test.log.is_done("kernel"));
  CHECK_FALSE(in.is_done());
  out.wait();
  CHECK((back == test.host));
  CHECK(test.copier.counters().copies_by_driver == 2);
  CHECK(test.copier.counters().copies_staged == 0);
  CHECK(driver_calls(*test.runtime, "cuStreamWaitValue32") == 0);
}

TEST_CASE("without the host's page tables pageable memory is staged" * needs_gates()) {
  for (const auto access : {sim::PageableAccess::none, sim::PageableAccess::page_faults}) {
    CopyTest test(machine(access, sim::Progress::eager));
    const Stream stream = test.stream();
    Buffer device(test, Kind::device, kBytes);
    const Bytes host = pattern(kBytes, 1);
    test.copier.start(device.data(), host.data(), kBytes, stream).wait();
    CHECK((device.read() == host));
    CHECK(test.copier.counters().copies_staged == 1);
    CHECK(test.copier.counters().copies_by_driver == 0);
  }
}

TEST_CASE("the device's access to pageable memory is queried once") {
  InReach test(sim::Progress::eager);
  test.copier.start(test.device.data(), test.host.data(), kBytes, test.own).wait();
  const std::uint64_t asked = driver_calls(*test.runtime, "cuDeviceGetAttribute");
  for (int round = 0; round < 3; ++round) {
    test.copier.start(test.device.data(), test.host.data(), kBytes, test.own).wait();
    test.copier.copy(test.host.data(), test.device.data(), 100, test.own);
  }
  CHECK(driver_calls(*test.runtime, "cuDeviceGetAttribute") == asked);
}

TEST_CASE("the destructor of a Transfer waits until the device has finished with the memory") {
  InReach test;
  test.log.submit(test.own, "kernel");
  {
    auto target = std::make_unique<Bytes>(kBytes);
    const Transfer out = test.copier.start(target->data(), test.device.data(), kBytes, test.own);
    CHECK_FALSE(test.log.is_done("kernel"));
  }
  CHECK(test.log.is_done("kernel"));
  test.log.submit(test.own, "second");
  const auto kept = std::make_shared<Bytes>(kBytes);
  test.copier.start(test.device.data(), kept->data(), kBytes, test.own, {.keep_alive = kept});
  test.copier.start(test.device.data(), test.host.data(), kBytes, test.own).detach();
  CHECK_FALSE(test.log.is_done("second"));
  test.own.ref().sync();
}

TEST_CASE("copy_async has the same semantics on a device that accesses pageable memory directly" *
          needs_gates()) {
  for (const std::size_t bytes : {std::size_t{8}, 64_KiB, 64_KiB + 1, kBytes}) {
    CAPTURE(bytes);
    InReach test;
    test.log.submit(test.own, "kernel");
    const Bytes content(test.host.begin(), test.host.begin() + std::ptrdiff_t(bytes));
    test.copier.copy_async(test.device.data(), test.host.data(), bytes, test.own);
    CHECK_FALSE(test.log.is_done("kernel"));  // a source is read without the stream
    std::fill(test.host.begin(), test.host.end(), static_cast<unsigned char>(0));
    Bytes back(bytes);
    test.copier.copy_async(back.data(), test.device.data(), bytes, test.own);
    CHECK((back == content));
    test.copier.copy(test.host.data(), test.device.data(), bytes, test.own);
    CHECK(std::equal(content.begin(), content.end(), test.host.begin()));
  }
}

TEST_CASE("copies of pageable memory are not captured, even if the device can access it") {
  InReach test;
  begin_capture(test.own);
  CHECK_THROWS_AS(test.copier.start(test.device.data(), test.host.data(), kBytes, test.own),
                  StreamCaptured);
  const CapturedGraph graph(test.own);
  CHECK(graph.nodes() == 0);
}

TEST_CASE("a copy within one device is one driver call of any size") {
  CopyTest test({}, {.direct_piece_bytes = 64_KiB});
  constexpr std::size_t kManyPieces = 20 * 64_KiB + 1;
  const Stream stream = test.stream();
  Buffer from(test, Kind::device, kManyPieces);
  Buffer to(test, Kind::foreign_device, kManyPieces);
  test.copier.copy_async(to.data(), from.data(), kManyPieces, stream);
  const Transfer transfer = test.copier.start(to.data(), from.data(), kManyPieces, stream);
  CHECK(driver_calls(*test.runtime, "cuMemcpyAsync") == 2);
  transfer.wait();
}

}  // namespace pageable_access_test
