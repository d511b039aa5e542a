// SPDX-License-Identifier: Apache-2.0
// Copies between all kinds of memory, at sizes around every boundary: all bytes arrive, and no
// others are written.
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "support/thinned.hpp"

namespace copy_matrix_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSlot = 64 * 1024;
constexpr std::size_t kSlots = 3;

sim::Config two_devices(sim::Progress progress, bool peer) {
  sim::Config config;
  config.devices = 2;
  config.progress = progress;
  config.peer = peer;
  return config;
}

CopierOptions small_ring() {
  return {.staging_slot_bytes = kSlot, .staging_slots = kSlots};
}

/// Copies `bytes` from `from` to `to` on a stream of one of the two devices, and compares.
void check_copy(CopyTest& test, Kind from, Kind to, std::size_t bytes, const Stream& stream) {
  CAPTURE(name_of(from));
  CAPTURE(name_of(to));
  CAPTURE(bytes);
  Buffer source(test, from, bytes);
  Buffer target(test, to, bytes);
  const Bytes content = pattern(bytes, bytes + 1);
  source.write(content);
  target.write(pattern(bytes, 99));
  const CopyCounters before = test.copier.counters();
  test.copier.copy_async(target.data(), source.data(), bytes, stream);
  stream.ref().sync();
  CHECK((target.read() == content));
  CHECK((source.read() == content));
  CHECK(target.guards_hold());
  CHECK(test.copier.counters().bytes_copied == before.bytes_copied + bytes);
}

const std::vector<std::size_t> kSizes = {
    1,         2,     3,         31,        512,       4095,          4096,     4097,
    kSlot - 1, kSlot, kSlot + 1, 2 * kSlot, 3 * kSlot, 3 * kSlot + 1, 1'000'003};

}  // namespace

TEST_CASE("every kind of memory is copied to every other, at every size, in every progress mode") {
  Thinned thinned(7);
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual, sim::Progress::random}) {
    CAPTURE(int(progress));
    CopyTest test(two_devices(progress, true), small_ring());
    const Stream streams[] = {test.stream(0), test.stream(1)};
    for (const Kind from : kKinds) {
      for (const Kind to : kKinds) {
        for (const std::size_t bytes : kSizes) {
          if (thinned.skips()) continue;
          check_copy(test, from, to, bytes, streams[stream_device_of(from, to)]);
        }
      }
    }
  }
}

TEST_CASE("devices without peer access copy to each other, on a stream of either") {
  for (const bool peer : {true, false}) {
    CAPTURE(peer);
    CopyTest test(two_devices(sim::Progress::random, peer), small_ring());
    const Stream streams[] = {test.stream(0), test.stream(1)};
    for (const Stream& stream : streams) {
      for (const std::size_t bytes : kSizes) {
        check_copy(test, Kind::device, Kind::peer, bytes, stream);
        check_copy(test, Kind::peer, Kind::device, bytes, stream);
        check_copy(test, Kind::foreign_device, Kind::peer, bytes, stream);
      }
    }
  }
}

TEST_CASE("every kind of memory is copied to every other without virtual memory") {
  for (const bool peer : {true, false}) {
    CAPTURE(peer);
    sim::Config config = two_devices(sim::Progress::manual, peer);
    config.vmm = false;
    CopyTest test(config, small_ring());
    const Stream stream = test.stream(1);
    check_copy(test, Kind::device, Kind::peer, 3 * kSlot + 1, stream);
    check_copy(test, Kind::peer, Kind::device, 3 * kSlot + 1, stream);
    check_copy(test, Kind::pageable, Kind::peer, 3 * kSlot + 1, stream);
    check_copy(test, Kind::peer, Kind::pageable, 3 * kSlot + 1, stream);
  }
}

TEST_CASE("with the default staging size, copies around a slot and beyond the whole ring arrive") {
  CopyTest test(two_devices(sim::Progress::random, true));
  const Stream stream = test.stream();
  for (const std::size_t bytes : {4_MiB - 1, 4_MiB, 4_MiB + 1, 9_MiB + 5, 33_MiB + 7}) {
    check_copy(test, Kind::pageable, Kind::device, bytes, stream);
    check_copy(test, Kind::device, Kind::pageable, bytes, stream);
  }
}

TEST_CASE("copies on the legacy default stream arrive") {
  CopyTest test(two_devices(sim::Progress::manual, true), small_ring());
  const StreamRef legacy = test.runtime->default_stream(Device::cuda(1));
  for (const Kind host : {Kind::pageable, Kind::pinned}) {
    Buffer there(test, Kind::peer, 100'001);
    Buffer source(test, host, 100'001);
    Buffer back(test, host, 100'001);
    const Bytes content = pattern(100'001, 5);
    source.write(content);
    test.copier.copy_async(there.data(), source.data(), 100'001, legacy);
    test.copier.copy_async(back.data(), there.data(), 100'001, legacy);
    legacy.sync();
    CHECK((back.read() == content));
  }
}

}  // namespace copy_matrix_test
