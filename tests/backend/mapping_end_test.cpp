// SPDX-License-Identifier: Apache-2.0
// The end of a mapping of host memory, beside transfers that begin meanwhile, or began before it.
#include <atomic>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_buffer.hpp"
#include "berth/error.hpp"
#include "berth/host_mapping.hpp"

#include "backend/backend_fixture.hpp"

namespace mapping_end_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Turns in which another thread does what it can.
constexpr int kTurns = 2000;

struct MappingEndTest : BackendFixture {
  MappingEndTest() { machine->can_map = true; }

  DeviceBuffer copy(std::size_t part_bytes = 0) {
    return buffers().create(device(0), memory.data(), memory.size(), {.part_bytes = part_bytes});
  }

  std::vector<std::byte> memory = numbered_bytes(256_KiB);
};

}  // namespace

TEST_CASE("no transfer of the memory begins while its mapping ends") {
  for (const std::size_t part_bytes : {std::size_t{0}, 64_KiB}) {
    CAPTURE(part_bytes);
    MappingEndTest test;
    FakeMachine& machine = *test.machine;
    const auto begun = [&] { return machine.whole_created + machine.parts_written; };
    std::optional<HostMapping> mapping =
        test.buffers().map_host_memory(test.device(0), test.memory.data(), test.memory.size());
    std::optional<DeviceBuffer> made;
    std::jthread other;
    int begun_meanwhile = -1;
    machine.on_unmap = [&] {
      std::atomic<bool> is_about_to = false;
      other = std::jthread([&] {
        is_about_to = true;
        made = test.copy(part_bytes);
      });
      while (!is_about_to) std::this_thread::yield();
      for (int turn = 0; turn < kTurns && begun() == 0; ++turn) std::this_thread::yield();
      begun_meanwhile = begun();
    };
    mapping.reset();
    other.join();
    machine.on_unmap = nullptr;
    CHECK(begun_meanwhile == 0);
    CHECK(are_equal(content_of(*made), test.memory));
    // The next mapping knows nothing of that transfer.
    mapping =
        test.buffers().map_host_memory(test.device(0), test.memory.data(), test.memory.size());
    mapping.reset();
  }
}

TEST_CASE("the end of a mapping waits for what has begun on it, also if the backend refuses it") {
  for (const bool is_refused : {false, true}) {
    CAPTURE(is_refused);
    MappingEndTest test;
    FakeMachine& machine = *test.machine;
    if (is_refused) machine.map_failure = "not this memory";
    std::optional<DeviceBuffer> made;
    std::jthread other;
    std::atomic<bool> has_run = false;
    const auto begin = [&] {
      machine.is_late = true;
      made = test.copy();
      other = std::jthread([&] {
        for (int turn = 0; turn < kTurns; ++turn) std::this_thread::yield();
        has_run = true;
        machine.run_all();
      });
    };
    if (is_refused) machine.on_map = begin;
    std::optional<HostMapping> mapping;
    try {
      mapping =
          test.buffers().map_host_memory(test.device(0), test.memory.data(), test.memory.size());
      begin();
    } catch (const BackendError&) {
      CHECK(is_refused);
    }
    mapping.reset();
    CHECK(has_run);  // the transfer ends after its use of the memory, and may still be pending
    other.join();
    machine.is_late = false;
    CHECK(are_equal(content_of(*made), test.memory));
  }
}

TEST_CASE("the end of a Runtime unmaps memory while another thread destroys a buffer") {
  MappingEndTest test;
  FakeMachine& machine = *test.machine;
  std::optional<DeviceBuffer> buffer = test.copy();
  buffer->ready().wait();
  const HostMapping mapping =
      test.buffers().map_host_memory(test.device(0), test.memory.data(), test.memory.size());
  std::jthread other;
  std::atomic<bool> is_over = false;
  bool was_over = false;
  machine.on_unmap = [&] {
    other = std::jthread([&] {
      buffer.reset();
      is_over = true;
    });
    for (int turn = 0; turn < 100 * kTurns && !is_over; ++turn) std::this_thread::yield();
    was_over = is_over;
  };
  test.simulation.runtime.reset();
  machine.on_unmap = nullptr;
  other.join();
  CHECK(was_over);
}

TEST_CASE("transfers that began before the mapping do not delay its end") {
  MappingEndTest test;
  FakeMachine& machine = *test.machine;
  machine.is_late = true;
  const DeviceBuffer before = test.copy();
  {
    const HostMapping mapping =
        test.buffers().map_host_memory(test.device(0), test.memory.data(), test.memory.size());
    CHECK(machine.maps_live == 1);
  }
  CHECK(machine.maps_live == 0);
  CHECK_FALSE(before.ready().is_done());
  machine.run_all();
  before.ready().wait();
}

}  // namespace mapping_end_test
