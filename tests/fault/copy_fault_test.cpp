// SPDX-License-Identifier: Apache-2.0
// Copies of rows and batches with each of their driver calls refused once, and without the function
// for batches.
#include <algorithm>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include "fault/fault_fixture.hpp"
#include "support/pattern.hpp"

namespace copy_fault_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 300'000;
constexpr std::size_t kRow = 9000;
constexpr std::size_t kPitch = 9100;
constexpr std::size_t kRows = 30;

using Bytes = std::vector<unsigned char>;

/// The argument is evaluated before doctest looks on, so that an injected failure reaches the step.
void check_holds(bool holds) {
  CHECK(holds);
}

const Bytes& content() {
  static const Bytes bytes = pattern(kBytes, 1);
  return bytes;
}

unsigned char* block(World& world, std::size_t index) {
  return static_cast<unsigned char*>(world.blocks[index].data());
}

/// cuda:0 and cuda:1 with a stream and memory each, and pinned memory.
void make_buffers(World& world) {
  world.registry.emplace(*world.driver, *world.nvml);
  world.events.emplace(world.context(0));
  world.other_events.emplace(world.context(1));
  world.pinned.emplace(*world.registry, small_segments());
  world.memory.emplace(world.context(0), *world.events, DeviceAllocatorOptions{});
  world.other_memory.emplace(world.context(1), *world.other_events, DeviceAllocatorOptions{});
  for (const int device : {0, 1})
    world.streams.emplace_back(world.context(device), StreamOptions{});
  world.blocks.push_back(world.memory->allocate(kBytes, world.streams[0]));
  world.blocks.push_back(world.other_memory->allocate(kBytes, world.streams[1]));
  world.blocks.push_back(world.pinned->allocate(kBytes));
}

void copy_rows(World& world, void* target, std::size_t target_pitch, const void* source,
               std::size_t source_pitch, StreamRef stream) {
  world.copier->start_rows({target, target_pitch}, {source, source_pitch}, kRow, kRows, stream)
      .wait();
}

bool have_arrived(const unsigned char* rows, std::size_t pitch, const Bytes& sent) {
  for (std::size_t row = 0; row < kRows; ++row) {
    if (!std::equal(rows + row * pitch, rows + row * pitch + kRow,
                    sent.begin() + std::ptrdiff_t(row * kPitch)))
      return false;
  }
  return true;
}

/// Of 100,000 bytes each: direct copies, small ones that are packed, and pageable ones.
std::vector<CopyRange> batch(unsigned char* device, unsigned char* pinned, unsigned char* pageable,
                             bool to_device) {
  std::vector<CopyRange> copies;
  const auto add = [&](unsigned char* there, unsigned char* here, std::size_t bytes) {
    copies.push_back(to_device ? CopyRange{there, here, bytes} : CopyRange{here, there, bytes});
  };
  for (std::size_t at = 0; at < 100'000; at += 20'000) add(device + at, pinned + at, 19'000);
  for (std::size_t at = 100'000; at < 200'000; at += 5000)
    add(device + at, pinned + 300'000 - at, 5000);
  for (std::size_t at = 200'000; at < 300'000; at += 10'000) add(device + at, pageable + at, 9000);
  return copies;
}

void make_copier(World& world) {
  world.make_copier({.staging_slot_bytes = 64_KiB,
                     .staging_slots = 4,
                     .workers = 1,
                     .direct_piece_bytes = 64_KiB});
}

void send_rows(World& world) {
  const Bytes& sent = content();
  Bytes back(kBytes);
  copy_rows(world, block(world, 0), kRow, sent.data(), kPitch, world.streams[0]);
  copy_rows(world, back.data(), kPitch, block(world, 0), kRow, world.streams[0]);
  check_holds(have_arrived(back.data(), kPitch, sent));
}

void send_pinned_rows(World& world) {
  const Bytes& sent = content();
  std::copy(sent.begin(), sent.end(), block(world, 2));
  copy_rows(world, block(world, 0), kPitch, block(world, 2), kPitch, world.streams[0]);
  std::fill_n(block(world, 2), kBytes, static_cast<unsigned char>(0));
  copy_rows(world, block(world, 1), kRow, block(world, 0), kPitch, world.streams[1]);
  copy_rows(world, block(world, 2), kPitch, block(world, 1), kRow, world.streams[1]);
  check_holds(have_arrived(block(world, 2), kPitch, sent));
}

void send_batch(World& world) {
  const Bytes& sent = content();
  Bytes pageable = sent;
  std::copy(sent.begin(), sent.end(), block(world, 2));
  const auto copy = [&](bool to_device) {
    world.copier
        ->start_batch(batch(block(world, 0), block(world, 2), pageable.data(), to_device),
                      world.streams[0])
        .wait();
  };
  copy(true);
  const std::vector<CopyRange> copies =
      batch(block(world, 0), block(world, 2), pageable.data(), true);
  for (const CopyRange& range : copies)
    std::fill_n(static_cast<unsigned char*>(const_cast<void*>(range.source)), range.bytes,
                static_cast<unsigned char>(0));
  copy(false);
  check_holds(pageable == sent && std::equal(sent.begin(), sent.end(), block(world, 2)));
}

sim::Config two_devices(sim::Progress progress, bool peer) {
  sim::Config config;
  config.devices = 2;
  config.memory = {1_GiB};  // an allocator has a table of all granules
  config.progress = progress;
  config.peer = peer;
  return config;
}

}  // namespace

TEST_CASE("copies of rows and batches survive each driver call that fails once") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual}) {
    survives_every_fault(
        {two_devices(progress, progress == sim::Progress::eager),
         make_buffers,
         {{"make the copier", make_copier},
          {"rows of pageable memory to the device, and back", send_rows},
          {"rows of pinned memory to the device, the other device, and back", send_pinned_rows},
          {"a batch to the device, and back", send_batch}}});
  }
}

TEST_CASE("a driver that lacks batches copies each range by itself") {
  World world(two_devices(sim::Progress::random, true));
  world.tap.hide(DriverCall::memcpy_batch_async);
  world.driver.emplace(world.tap.source(), world.reports.sink());
  REQUIRE(world.driver->usable());
  world.nvml.emplace(world.tap.source());
  make_buffers(world);
  make_copier(world);
  send_batch(world);
  CHECK(world.simulator.calls("cuMemcpyBatchAsync") == 0);
  world.let_go();
}

}  // namespace copy_fault_test
