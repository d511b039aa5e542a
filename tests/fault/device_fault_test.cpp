// SPDX-License-Identifier: Apache-2.0
// Devices, streams, events, pools and copies with each of their driver calls refused once, and the
// exit of a process whose driver refuses everything.
#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/current_stream.hpp"
#include "berth/device_guard.hpp"
#include "berth/file.hpp"

#include "fault/fault_fixture.hpp"
#include "support/pattern.hpp"
#include "support/temporary_folder.hpp"

namespace device_fault_test {

using namespace berth;
using namespace berth::test;

namespace {

/// The argument is evaluated before doctest looks on, so that an injected failure reaches the step.
void check_holds(bool holds) {
  CHECK(holds);
}

sim::Config two_devices(sim::Progress progress) {
  sim::Config config;
  config.devices = 2;
  config.memory = {1_GiB};  // an allocator has a table of all granules
  config.progress = progress;
  return config;
}

void make_registry(World& world) {
  world.registry.emplace(*world.driver, *world.nvml);
}

/// More than the staging slots hold at a time.
constexpr std::size_t kBytes = 140'000;

const std::vector<unsigned char>& content() {
  static const std::vector<unsigned char> bytes = pattern(kBytes, 1);
  return bytes;
}

/// Copies between host memory and both devices, with what came back compared.
std::vector<Step> copies() {
  return {
      {"make the copier",
       [](World& world) {
         world.make_copier(
             {.staging_slot_bytes = 64_KiB, .staging_slots = 2, .workers = 1, .file_workers = 2});
       }},
      {"pageable to device, and back",
       [](World& world) {
         const std::vector<unsigned char>& sent = content();
         std::vector<unsigned char> back(kBytes);
         world.copier->copy_async(world.blocks[0].data(), sent.data(), kBytes, world.streams[0]);
         world.copier->copy(back.data(), world.blocks[0].data(), kBytes, world.streams[0]);
         check_holds((back == sent));
       }},
      {"pinned to device, to the other device, and back to pinned",
       [](World& world) {
         const std::vector<unsigned char>& sent = content();
         auto* const pinned = static_cast<unsigned char*>(world.blocks[2].data());
         std::copy(sent.begin(), sent.end(), pinned);
         world.copier->copy(world.blocks[0].data(), pinned, kBytes, world.streams[0]);
         std::fill_n(pinned, kBytes, static_cast<unsigned char>(0));
         world.copier->copy(world.blocks[1].data(), world.blocks[0].data(), kBytes,
                            world.streams[1]);
         world.copier->copy(pinned, world.blocks[1].data(), kBytes, world.streams[1]);
         check_holds(std::equal(sent.begin(), sent.end(), pinned));
       }},
      {"a file to device, and back",
       [](World& world) {
         const std::vector<unsigned char>& sent = content();
         std::vector<unsigned char> back(kBytes);
         const TemporaryFolder folder;
         const std::string path = folder.path() / "weights";
         const FileRange target{File::open_to_write(path), 0, kBytes};
         target.file.write(std::as_bytes(std::span(sent)), 1000);
         const FileRange source{File::open_to_read(path), 1000, kBytes};
         void* const memory = world.blocks[0].data();
         world.copier->start(memory, source, world.streams[0]).wait();
         world.copier->start(target, memory, world.streams[0]).wait();
         source.file.read(std::as_writable_bytes(std::span(back)), 0);
         check_holds((back == sent));
       }},
      {"fill",
       [](World& world) {
         world.copier->fill_async(world.blocks[0].data(), 9, kBytes, world.streams[0]);
         world.streams[0].ref().sync();
         check_holds(world.simulator.peek(address_of(world.blocks[0].data()), 1).at(0) == 9);
       }},
  };
}

void make_buffers(World& world) {
  make_registry(world);
  world.events.emplace(world.context(0));
  world.pinned.emplace(*world.registry, small_segments());
  world.memory.emplace(world.context(0), *world.events, DeviceAllocatorOptions{});
  for (const int device : {0, 1})
    world.streams.emplace_back(world.context(device), StreamOptions{});
}

/// A driver, and everything that uses it.
void make_all(World& world) {
  world.driver.emplace(world.tap.source(), world.reports.sink());
  world.nvml.emplace(world.tap.source());
  make_buffers(world);
  world.stream_pool.emplace(world.context(), StreamPoolOptions{});
  world.make_copier();
}

}  // namespace

TEST_CASE("the device registry survives each driver call that fails once") {
  survives_every_fault(
      {two_devices(sim::Progress::eager),
       nullptr,
       {
           {"make the registry", [](World& world) { make_registry(world); }},
           {"count", [](World& world) { check_holds(world.registry->count() == 2); }},
           {"resolve",
            [](World& world) {
              check_holds(world.registry->resolve(Device::cuda()) == Device::cuda(0));
            }},
           {"use a device",
            [](World& world) {
              world.registry->set_current(Device::cuda(1));
              const Device current = world.registry->current();
              check_holds(current == Device::cuda(1));
            }},
           {"guards",
            [](World& world) {
              const DeviceGuard outer(*world.registry, Device::cuda(0));
              const DeviceGuard same(*world.registry, Device::cuda(0));
              world.registry->set_current(Device::cuda(1));
              { const StreamGuard stream(StreamRef(world.context(0), nullptr)); }
              const DeviceGuard inner(*world.registry, Device::cuda(0));
              const Device current = world.registry->current();
              check_holds(current == Device::cuda(0));
            }},
           {"restored",
            [](World& world) {
              world.registry->set_current(Device::cuda(1));
              const MemoryInfo info = world.registry->memory_info(Device::cuda(0));
              check_holds(info.bytes_total > 0);
            }},
       }});
}

TEST_CASE("streams, events and their pools survive each driver call that fails once") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual}) {
    survives_every_fault(
        {two_devices(progress),
         make_registry,
         {
             {"make pools",
              [](World& world) {
                world.events.emplace(world.context());
                world.stream_pool.emplace(world.context(), StreamPoolOptions{});
              }},
             {"lease streams",
              [](World& world) {
                const StreamLease first = world.stream_pool->acquire();
                const StreamLease urgent = world.stream_pool->acquire(-1);
                check_holds(world.stream_pool->leases_live() == 2);
              }},
             {"nothing is on lease",
              [](World& world) { check_holds(world.stream_pool->leases_live() == 0); }},
             {"own a stream",
              [](World& world) {
                if (world.streams.size() < 2)
                  world.streams.emplace_back(world.context(), StreamOptions{});
                if (world.streams.size() < 2)
                  world.streams.emplace_back(world.context(), StreamOptions{});
              }},
             {"wait for an event",
              [](World& world) {
                const EventLease event = world.events->acquire();
                event->record(world.streams[0]);
                world.streams[1].ref().wait(event);
                event->sync();
                check_holds(event->is_done());
                world.streams[1].ref().sync();
                check_holds(world.streams[1].ref().is_done());
              }},
             {"no event is on lease",
              [](World& world) { check_holds(world.events->leases_live() == 0); }},
             {"measure",
              [](World& world) {
                const EventLease start = world.events->acquire({.timing = true});
                const EventLease end = world.events->acquire({.timing = true});
                start->record(world.streams[0]);
                end->record(world.streams[0]);
                end->sync();
                check_holds(elapsed_ms(start, end) >= 0.0F);
              }},
             {"replace a stream",
              [](World& world) {
                Stream next(world.context(), {});
                world.streams[0] = std::move(next);
              }},
         }});
  }
}

TEST_CASE("copies survive each driver call that fails once") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual}) {
    for (const bool peer : {true, false}) {
      sim::Config config = two_devices(progress);
      config.peer = peer;
      survives_every_fault(
          {config,
           [](World& world) {
             make_buffers(world);
             world.blocks.push_back(world.memory->allocate(kBytes, world.streams[0]));
             world.other_events.emplace(world.context(1));
             world.other_memory.emplace(world.context(1), *world.other_events,
                                        DeviceAllocatorOptions{});
             world.blocks.push_back(world.other_memory->allocate(kBytes, world.streams[1]));
             world.blocks.push_back(world.pinned->allocate(kBytes));
           },
           copies()});
    }
  }
}

TEST_CASE("when the driver has shut down, destruction neither throws nor reports") {
  World world(two_devices(sim::Progress::eager));
  make_all(world);
  {
    const Allocation freed = world.memory->allocate(10_MiB, world.streams[0]);
    freed.record_stream(world.streams[0]);
    const StreamLease stream = world.stream_pool->acquire();
    const EventLease event = world.events->acquire();
    event->record(stream);
    const std::vector<char> pageable(1000);
    world.copier->copy(freed.data(), pageable.data(), 1000, stream);
    const Allocation pinned = world.pinned->allocate(1000);
  }
  for (std::size_t call = 0; call < kDriverCallCount; ++call)
    world.tap.refuse_all(DriverCall(call), CUDA_ERROR_DEINITIALIZED);
  world.let_go();
  for (const Report& report : world.reports.all()) FAIL_CHECK(report.message);
}

TEST_CASE("when the driver has shut down, calls that need it throw DriverError with its code") {
  World world(two_devices(sim::Progress::eager));
  make_all(world);
  const Allocation block = world.memory->allocate(10_MiB, world.streams[0]);
  std::vector<char> pageable(100'000);
  const EventLease event = world.events->acquire();
  const Stream user(world.context(), {});
  const StreamRef stream = world.streams[0];
  for (std::size_t call = 0; call < kDriverCallCount; ++call)
    world.tap.refuse_all(DriverCall(call), CUDA_ERROR_DEINITIALIZED);
  const auto code_of = [](const auto& call) {
    try {
      call();
    } catch (const DriverError& error) {
      return error.driver_code();
    }
    return 0;
  };
  constexpr int kDeinitialized = CUDA_ERROR_DEINITIALIZED;
  CHECK(code_of([&] { stream.sync(); }) == kDeinitialized);
  CHECK(code_of([&] { static_cast<void>(stream.is_done()); }) == kDeinitialized);
  CHECK(code_of([&] { event->record(stream); }) == kDeinitialized);
  CHECK(code_of([&] { static_cast<void>(world.memory->allocate(64_MiB, stream)); }) ==
        kDeinitialized);
  CHECK(code_of([&] { static_cast<void>(world.pinned->allocate(64_MiB)); }) == kDeinitialized);
  CHECK(code_of([&] { static_cast<void>(world.stream_pool->acquire()); }) == kDeinitialized);
  CHECK(code_of([&] { world.copier->copy(block.data(), pageable.data(), 100'000, stream); }) ==
        kDeinitialized);
  CHECK(code_of([&] { world.copier->fill_async(block.data(), 0, 100, stream); }) == kDeinitialized);
  CHECK(code_of([&] { world.memory->record_use(block.data(), user); }) == kDeinitialized);
}

}  // namespace device_fault_test
