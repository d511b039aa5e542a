// SPDX-License-Identifier: Apache-2.0
// When a copy reads its source, when its target has the bytes, and which work waits for which. In
// manual progress work runs only if a test steps it or a host call waits for it.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "support/errors.hpp"

namespace copy_order_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64 * 1024;
constexpr std::size_t kSlots = 4;
constexpr std::size_t kRing = kSlot * kSlots;

CopierOptions small_ring() {
  return {.staging_slot_bytes = kSlot, .staging_slots = kSlots};
}

sim::Config with_progress(sim::Progress progress) {
  sim::Config config;
  config.devices = 2;
  config.progress = progress;
  return config;
}

}  // namespace

TEST_CASE("a pageable source may be changed or freed as soon as the call returns") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual, sim::Progress::random}) {
    for (const std::size_t bytes : {std::size_t{1}, kSlot, kSlot + 1, kRing, 3 * kRing + 17}) {
      CAPTURE(int(progress));
      CAPTURE(bytes);
      CopyTest test(with_progress(progress), small_ring());
      const Stream stream = test.stream();
      Buffer target(test, Kind::device, bytes);
      const Bytes content = pattern(bytes, 1);
      auto source = std::make_unique<Bytes>(content);
      test.copier.copy_async(target.data(), source->data(), bytes, stream);
      std::fill(source->begin(), source->end(), static_cast<unsigned char>(0xEE));
      source.reset();
      stream.ref().sync();
      CHECK((target.read() == content));
    }
  }
}

TEST_CASE("a pinned source is read in stream order") {
  for (const Kind kind : {Kind::pinned, Kind::registered}) {
    CAPTURE(name_of(kind));
    CopyTest test(with_progress(sim::Progress::manual), small_ring());
    const Stream stream = test.stream();
    Buffer source(test, kind, 1000);
    Buffer target(test, Kind::device, 1000);
    const Bytes late = pattern(1000, 2);
    source.write(pattern(1000, 1));
    test.copier.copy_async(target.data(), source.data(), 1000, stream);
    source.write(late);
    stream.ref().sync();
    CHECK((target.read() == late));
  }
}

TEST_CASE("a device source is read in the order of the stream, and a target written in it") {
  for (const Kind host : {Kind::pageable, Kind::pinned}) {
    for (const auto progress : {sim::Progress::manual, sim::Progress::random}) {
      CAPTURE(name_of(host));
      CopyTest test(with_progress(progress), small_ring());
      const Stream stream = test.stream();
      Buffer there(test, Kind::device, kSlot + 5);
      Buffer first(test, host, kSlot + 5);
      Buffer second(test, host, kSlot + 5);
      test.copier.fill_async(there.data(), 1, kSlot + 5, stream);
      test.copier.copy_async(first.data(), there.data(), kSlot + 5, stream);
      test.copier.fill_async(there.data(), 2, kSlot + 5, stream);
      test.copier.copy_async(second.data(), there.data(), kSlot + 5, stream);
      test.copier.fill_async(there.data(), 3, kSlot + 5, stream);
      stream.ref().sync();
      CHECK((first.read() == Bytes(kSlot + 5, 1)));
      CHECK((second.read() == Bytes(kSlot + 5, 2)));
      CHECK((there.read() == Bytes(kSlot + 5, 3)));
    }
  }
}

TEST_CASE("an event recorded after a copy marks its completion") {
  for (const Kind host : {Kind::pageable, Kind::pinned}) {
    for (const std::size_t bytes : {std::size_t{1}, kSlot, kRing - 3}) {
      CAPTURE(name_of(host));
      CAPTURE(bytes);
      CopyTest test(with_progress(sim::Progress::manual), small_ring());
      const Stream stream = test.stream();
      Buffer there(test, Kind::device, bytes);
      Buffer target(test, host, bytes);
      const Bytes content = pattern(bytes, 3);
      there.write(content);
      test.copier.copy_async(target.data(), there.data(), bytes, stream);
      const EventLease mark = test.runtime->record(stream);
      test.log.submit(stream, "after");
      mark->sync();
      CHECK((target.read() == content));
      CHECK_FALSE(test.log.is_done("after"));
    }
  }
}

TEST_CASE("another stream that waits for a copy reads what the copy wrote") {
  CopyTest test(with_progress(sim::Progress::random), small_ring());
  const Stream first = test.stream();
  const Stream second = test.stream();
  Buffer there(test, Kind::device, 200'000);
  const Bytes content = pattern(200'000, 4);
  Buffer back(test, Kind::pageable, 200'000);
  test.copier.copy_async(there.data(), content.data(), 200'000, first);
  second.ref().wait(test.runtime->record(first));
  test.copier.copy_async(back.data(), there.data(), 200'000, second);
  second.ref().sync();
  CHECK((back.read() == content));
}

TEST_CASE("copies of pinned and device memory never wait for pending work") {
  CopyTest test(with_progress(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  Buffer pinned(test, Kind::pinned, 2 * kRing);
  Buffer registered(test, Kind::registered, 2 * kRing);
  Buffer device(test, Kind::device, 2 * kRing);
  Buffer other(test, Kind::foreign_device, 2 * kRing);
  test.log.submit(stream, "earlier");
  for (int round = 0; round < 20; ++round) {
    test.copier.copy_async(device.data(), pinned.data(), 2 * kRing, stream);
    test.copier.copy_async(other.data(), device.data(), 2 * kRing, stream);
    test.copier.copy_async(registered.data(), other.data(), 2 * kRing, stream);
    test.copier.fill_async(device.data(), 7, 2 * kRing, stream);
  }
  CHECK_FALSE(test.log.is_done("earlier"));
  CHECK(test.copier.counters().copies_direct == 60);
  CHECK(test.copier.counters().copies_staged == 0);
  CHECK(test.copier.counters().staging_waits == 0);
  stream.ref().sync();
}

TEST_CASE("copies of pageable memory do not wait while the ring has room" * needs_gates()) {
  for (const bool to_device : {true, false}) {
    CAPTURE(to_device);
    CopyTest test(with_progress(sim::Progress::manual), small_ring());
    const Stream stream = test.stream();
    Buffer host(test, Kind::pageable, kRing);
    Buffer device(test, Kind::device, kRing);
    test.log.submit(stream, "earlier");
    Transfer transfer;
    if (to_device) {
      test.copier.copy_async(device.data(), host.data(), kRing, stream);
    } else {
      transfer = test.copier.start(host.data(), device.data(), kRing, stream);
    }
    CHECK_FALSE(test.log.is_done("earlier"));
    CHECK(test.copier.counters().copies_staged == 1);
    CHECK(test.copier.counters().staging_waits == 0);
    transfer.wait();
    stream.ref().sync();
  }
}

TEST_CASE("copy_async returns when a pageable target has the bytes, as cuMemcpyAsync does") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, kRing / 2, 3 * kRing + 7}) {
    for (const bool has_gates : {true, false}) {
      CAPTURE(bytes);
      CAPTURE(has_gates);
      sim::Config config = with_progress(sim::Progress::manual);
      if (!has_gates) config.faults = sim::FaultPlan::parse("cuStreamWaitValue32=not_supported");
      CopyTest test(config, small_ring());
      const Stream stream = test.stream();
      Buffer device(test, Kind::device, bytes);
      Buffer pinned(test, Kind::pinned, bytes);
      const Bytes content = pattern(bytes, 9);
      pinned.write(content);
      test.log.submit(stream, "earlier");
      test.copier.copy_async(device.data(), pinned.data(), bytes, stream);
      CHECK_FALSE(test.log.is_done("earlier"));
      {
        Bytes target(bytes);  // freed, and perhaps somebody else's, as soon as the call returns
        test.copier.copy_async(target.data(), device.data(), bytes, stream);
        CHECK(test.log.is_done("earlier"));
        CHECK((target == content));
      }
      test.log.submit(stream, "later");
      CHECK_FALSE(test.log.is_done("later"));
      stream.ref().sync();
    }
  }
}

TEST_CASE("copy_async throws for a failed pageable target, and does not access it any more" *
          needs_gates()) {
  sim::Config config = with_progress(sim::Progress::manual);
  config.faults = sim::FaultPlan::parse(
      "cuEventQuery@1+=unknown;cuEventSynchronize@1+=unknown;cuMemGetInfo@1+=unknown");
  CopyTest test(config, small_ring());
  test.errors_expected = true;
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kRing);
  Bytes target(kRing);
  CHECK_THROWS_AS(test.copier.copy_async(target.data(), device.data(), kRing, stream), DriverError);
}

TEST_CASE("copy_async of a pageable source waits for staging memory, and the wait is counted" *
          needs_gates()) {
  CopyTest test(with_progress(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kRing + 1);
  Buffer host(test, Kind::pageable, kRing + 1);
  const Bytes content = pattern(kRing + 1, 6);
  host.write(content);
  test.copier.copy_async(device.data(), host.data(), kRing + 1, stream);
  CHECK(test.copier.counters().staging_waits == 1);
  stream.ref().sync();
  CHECK((device.read() == content));
}

TEST_CASE("slots are used again once their copies are done, without waiting") {
  CopyTest test(with_progress(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, kRing);
  Buffer host(test, Kind::pageable, kRing);
  for (int round = 0; round < 10; ++round) {
    const Bytes content = pattern(kRing, 10 + std::uint64_t(round));
    host.write(content);
    test.copier.copy_async(device.data(), host.data(), kRing, stream);
    stream.ref().sync();
    CHECK((device.read() == content));
  }
  CHECK(test.copier.counters().staging_waits == 0);
}

TEST_CASE("a pinned block can be freed while a copy reads it, and its reuse waits") {
  CopyTest test(with_progress(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  PinnedAllocator& pinned = test.runtime->pinned_memory();
  Buffer device(test, Kind::device, 20_MiB);
  Allocation block = pinned.allocate(20_MiB + 100);
  auto* const inside = static_cast<unsigned char*>(block.data()) + 100;
  const Bytes content = pattern(20_MiB, 8);
  std::copy(content.begin(), content.end(), inside);
  test.copier.copy_async(device.data(), inside, 20_MiB, stream);
  void* const freed = block.data();
  block.reset();
  const Allocation next = pinned.allocate(20_MiB + 100);
  CHECK_FALSE(overlap(next.data(), next.bytes(), freed, 20_MiB + 100));
  stream.ref().sync();
  CHECK((device.read() == content));
  const Allocation again = pinned.allocate(20_MiB + 100);
  CHECK(again.data() == freed);
}

TEST_CASE("a pinned block can be freed while a copy writes it, and its reuse waits") {
  CopyTest test(with_progress(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  PinnedAllocator& pinned = test.runtime->pinned_memory();
  Buffer device(test, Kind::device, 20_MiB);
  Allocation block = pinned.allocate(20_MiB);
  test.copier.copy_async(block.data(), device.data(), 20_MiB, stream);
  void* const freed = block.data();
  block.reset();
  const Allocation next = pinned.allocate(20_MiB);
  CHECK_FALSE(overlap(next.data(), next.bytes(), freed, 20_MiB));
  stream.ref().sync();
}

TEST_CASE("a copy between host memory reads what earlier work of its stream writes") {
  CopyTest test(with_progress(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  constexpr std::size_t kBytes = 5000;
  Buffer device(test, Kind::device, kBytes);
  Buffer source(test, Kind::pinned, kBytes);
  Buffer targets[] = {{test, Kind::pageable, kBytes},
                      {test, Kind::pinned, kBytes},
                      {test, Kind::registered, kBytes}};
  std::uint64_t seed = 0;
  for (Buffer& target : targets) {
    for (const bool is_transfer : {false, true}) {
      const Bytes content = pattern(kBytes, ++seed);
      device.write(content);
      test.copier.copy_async(source.data(), device.data(), kBytes, stream);
      if (is_transfer) {
        CHECK(test.copier.start(target.data(), source.data(), kBytes, stream).is_done());
      } else {
        test.copier.copy_async(target.data(), source.data(), kBytes, stream);
      }
      CHECK((target.read() == content));
    }
  }
}

TEST_CASE("host to host copies are done when the call returns") {
  CopyTest test(with_progress(sim::Progress::manual), small_ring());
  const Stream stream = test.stream();
  constexpr std::size_t kBytes = 100'003;
  Buffer sources[] = {{test, Kind::pageable, kBytes},
                      {test, Kind::pinned, kBytes},
                      {test, Kind::registered, kBytes}};
  Buffer targets[] = {{test, Kind::pageable, kBytes},
                      {test, Kind::pinned, kBytes},
                      {test, Kind::registered, kBytes}};
  test.log.submit(stream, "earlier");
  std::uint64_t copies = 0;
  for (Buffer& source : sources) {
    for (Buffer& target : targets) {
      const Bytes content = pattern(kBytes, copies);
      source.write(content);
      const Transfer transfer = test.copier.start(target.data(), source.data(), kBytes, stream);
      CHECK((target.read() == content));
      CHECK(target.guards_hold());
      CHECK(transfer.is_done());
      CHECK(transfer.bytes() == kBytes);
      CHECK(transfer.bytes_done() == kBytes);
      CHECK(test.copier.counters().copies_host == ++copies);
    }
  }
  CHECK(test.log.is_done("earlier"));
  CHECK(test.copier.counters().copies_direct == 0);
  CHECK(test.copier.counters().copies_staged == 0);
  CHECK(test.copier.counters().bytes_copied == copies * kBytes);
}

TEST_CASE("copy returns when the target has the bytes") {
  for (const Kind host : {Kind::pageable, Kind::pinned}) {
    CopyTest test(with_progress(sim::Progress::manual), small_ring());
    const Stream stream = test.stream();
    Buffer device(test, Kind::device, kRing + 1);
    Buffer source(test, host, kRing + 1);
    Buffer back(test, host, kRing + 1);
    const Bytes content = pattern(kRing + 1, 11);
    source.write(content);
    test.copier.copy(device.data(), source.data(), kRing + 1, stream);
    CHECK((device.read() == content));
    CHECK(stream.ref().is_done());
    test.copier.copy(back.data(), device.data(), kRing + 1, stream);
    CHECK((back.read() == content));
    CHECK(stream.ref().is_done());
  }
}

TEST_CASE("copies leave the current device as it was") {
  CopyTest test(with_progress(sim::Progress::eager), small_ring());
  const Stream there = test.stream(1);
  Buffer device(test, Kind::peer, kSlot + 1);
  Buffer pageable(test, Kind::pageable, kSlot + 1);
  Buffer pinned(test, Kind::pinned, kSlot + 1);
  test.runtime->devices().set_current(Device::cuda(0));
  test.copier.copy_async(device.data(), pageable.data(), kSlot + 1, there);
  test.copier.copy_async(pinned.data(), device.data(), kSlot + 1, there);
  test.copier.fill_async(device.data(), 1, kSlot + 1, there);
  there.ref().sync();
  CHECK(test.runtime->devices().current() == Device::cuda(0));
}

TEST_CASE("a copy of pinned or device memory is one driver call for the copy") {
  CopyTest test(with_progress(sim::Progress::eager), small_ring());
  const Stream stream = test.stream();
  Buffer device(test, Kind::device, 3 * kRing);
  Buffer pinned(test, Kind::pinned, 3 * kRing);
  Buffer other(test, Kind::device, 3 * kRing);
  const auto copies = [&test] {
    return driver_calls(*test.runtime, "cuMemcpyAsync") +
           driver_calls(*test.runtime, "cuMemcpyPeerAsync");
  };
  const std::uint64_t before = copies();
  test.copier.copy_async(device.data(), pinned.data(), 3 * kRing, stream);
  CHECK(copies() == before + 1);
  test.copier.copy_async(pinned.data(), device.data(), 3 * kRing, stream);
  CHECK(copies() == before + 2);
  test.copier.copy_async(other.data(), device.data(), 3 * kRing, stream);
  CHECK(copies() == before + 3);
}

}  // namespace copy_order_test
