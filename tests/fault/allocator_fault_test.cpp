// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "fault/fault_fixture.hpp"

namespace allocator_fault_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config small_device(std::uint64_t bytes, sim::Progress progress) {
  sim::Config config;
  config.memory = {bytes};
  config.progress = progress;
  return config;
}

void make_registry_and_events(World& world) {
  world.registry.emplace(*world.driver, *world.nvml);
  world.events.emplace(world.context());
  for (int stream = 0; stream < 3; ++stream)
    world.streams.emplace_back(world.context(), StreamOptions{});
  world.log.submit(world.streams[0], "first");  // looks the context up
}

Step make_allocator(DeviceAllocatorOptions options) {
  return {"make the allocator", [options](World& world) {
            world.memory.emplace(world.context(), *world.events, options);
          }};
}

Step allocate(std::size_t block, std::size_t bytes, std::size_t stream) {
  return {"allocate block " + std::to_string(block) + " on stream " + std::to_string(stream),
          [=](World& world) {
            if (world.blocks.size() <= block) world.blocks.resize(block + 1);
            world.blocks[block] = world.memory->allocate(bytes, world.streams[stream]);
            CHECK(world.blocks[block].bytes() == bytes);
          }};
}

Step use(std::size_t block, std::size_t stream) {
  return {"use block " + std::to_string(block) + " on stream " + std::to_string(stream),
          [=](World& world) {
            world.log.submit(world.streams[stream], "work");
            world.blocks[block].record_stream(world.streams[stream]);
          }};
}

/// The same, where the stream's later work does not use the block.
Step use_once(std::size_t block, std::size_t stream) {
  return {"use block " + std::to_string(block) + " on stream " + std::to_string(stream) + " once",
          [=](World& world) {
            world.log.submit(world.streams[stream], "work");
            world.blocks[block].record_use(world.streams[stream]);
          }};
}

/// deallocate() promises to fail for wrong pointers only.
Step free_block(std::size_t block) {
  return {"free block " + std::to_string(block), [=](World& world) {
            void* const data = world.blocks[block].release();
            CHECK_NOTHROW(world.memory->deallocate(data));
          }};
}

Step trim(std::size_t bytes_to_keep) {
  return {"trim to " + std::to_string(bytes_to_keep),
          [=](World& world) { world.memory->trim(bytes_to_keep); }};
}

Step destroy_stream(std::size_t stream) {
  return {"destroy stream " + std::to_string(stream), [=](World& world) {
            world.memory->retire_stream(world.streams[stream]);
            Stream replaced(world.context(), {});
            world.streams[stream] = std::move(replaced);
          }};
}

Step run_everything() {
  return {"run everything", [](World& world) { world.simulator.run_all(); }};
}

Program every_rung(bool virtual_memory, sim::Progress progress) {
  DeviceAllocatorOptions options;
  options.virtual_memory = virtual_memory;
  return {small_device(64_MiB, progress),
          make_registry_and_events,
          {
              make_allocator(options),
              allocate(0, 4_MiB, 0),
              allocate(1, 1000, 0),
              allocate(2, 24_MiB, 1),
              use(2, 0),
              use_once(2, 2),
              free_block(2),  // deferred
              allocate(3, 14_MiB, 1),
              use(3, 1),
              free_block(3),
              allocate(4, 12_MiB, 2),  // taken from stream 1, or grown
              allocate(5, 24_MiB, 1),  // needs the deferred one
              free_block(4),
              free_block(5),
              trim(30_MiB),
              allocate(6, 20_MiB, 0),
              use(6, 2),
              use_once(6, 1),
              use_once(6, 1),
              destroy_stream(2),
              free_block(6),
              run_everything(),
              free_block(0),
              allocate(7, 40_MiB, 1),  // from pieces
              free_block(7),
              trim(0),
              allocate(8, 2_MiB, 0),
              free_block(1),
          }};
}

}  // namespace

TEST_CASE("the device allocator survives each driver call that fails once, with granules") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual})
    survives_every_fault(every_rung(true, progress));
}

TEST_CASE("the device allocator survives each driver call that fails once, with segments") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual})
    survives_every_fault(every_rung(false, progress));
}

TEST_CASE("a device that lacks one function of virtual memory is served by segments") {
  for (const DriverCall missing :
       {DriverCall::mem_get_allocation_granularity, DriverCall::mem_address_reserve,
        DriverCall::mem_address_free, DriverCall::mem_create, DriverCall::mem_release,
        DriverCall::mem_map, DriverCall::mem_unmap, DriverCall::mem_set_access}) {
    CAPTURE(kDriverCallNames[std::size_t(missing)]);
    World world(small_device(64_MiB, sim::Progress::eager));
    world.tap.hide(missing);
    world.driver.emplace(world.tap.source(), world.reports.sink());
    REQUIRE(world.driver->usable());
    world.nvml.emplace(world.tap.source());
    make_registry_and_events(world);
    world.memory.emplace(world.context(), *world.events, DeviceAllocatorOptions{});
    const Allocation block = world.memory->allocate(10_MiB, world.streams[0]);
    CHECK(world.simulator.live().allocations == 1);
    CHECK(world.simulator.live().physical_handles == 0);
    check_whole(*world.memory);
  }
}

TEST_CASE("the pinned allocator survives each driver call that fails once") {
  const auto allocate_pinned = [](std::size_t block, std::size_t bytes) {
    return Step{"allocate " + std::to_string(bytes) + " pinned bytes", [=](World& world) {
                  if (world.blocks.size() <= block) world.blocks.resize(block + 1);
                  world.blocks[block] = world.pinned->allocate(bytes);
                }};
  };
  const auto free_pinned = [](std::size_t block) {
    return Step{"free block " + std::to_string(block), [=](World& world) {
                  void* const data = world.blocks[block].release();
                  CHECK_NOTHROW(world.pinned->deallocate(data));
                }};
  };
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual}) {
    sim::Config config = small_device(64_MiB, progress);
    config.host_memory = 8_MiB;
    survives_every_fault(
        {config,
         make_registry_and_events,
         {
             {"make the allocator",
              [](World& world) { world.pinned.emplace(*world.registry, small_segments()); }},
             allocate_pinned(0, 1000),
             allocate_pinned(1, 4_MiB),
             use(1, 0),
             use_once(1, 1),
             free_pinned(1),
             allocate_pinned(2, 2_MiB),
             free_pinned(2),
             allocate_pinned(3, 5_MiB),  // needs the deferred one
             free_pinned(3),
             allocate_pinned(4, 3_MiB),
             use(4, 2),
             free_pinned(4),
             run_everything(),
             {"trim", [](World& world) { world.pinned->trim(0); }},
             free_pinned(0),
         }});
  }
}

TEST_CASE("pinned memory near several devices survives each driver call that fails once") {
  const auto allocate_near = [](std::size_t block, std::size_t bytes, PinnedOptions options) {
    return Step{"allocate " + std::to_string(bytes) + " pinned bytes", [=](World& world) {
                  if (world.blocks.size() <= block) world.blocks.resize(block + 1);
                  world.blocks[block] = world.pinned->allocate(bytes, options);
                }};
  };
  const auto free_pinned = [](std::size_t block) {
    return Step{"free block " + std::to_string(block), [=](World& world) {
                  void* const data = world.blocks[block].release();
                  CHECK_NOTHROW(world.pinned->deallocate(data));
                  world.pinned->finish_background_work();
                }};
  };
  sim::Config config = small_device(64_MiB, sim::Progress::manual);
  config.devices = 2;
  config.numa = {0, -1};
  config.host_memory = 64_MiB;
  const PinnedOptions near_first = {.near = Device::cuda(0)};
  const PinnedOptions near_second = {.near = Device::cuda(1)};
  const PinnedOptions write_combined = {.kind = PinnedKind::write_combined};
  survives_every_fault({config,
                        make_registry_and_events,
                        {
                            {"make the allocator",
                             [](World& world) {
                               PinnedAllocatorOptions options;
                               options.segment_bytes = 1_MiB;
                               options.bytes_reserved_max = 64_MiB;
                               options.bytes_cached_max = 24_MiB;
                               world.pinned.emplace(*world.registry, options);
                             }},
                            allocate_near(0, 1000, near_first),
                            allocate_near(1, 20_MiB, near_second),
                            allocate_near(2, 10_MiB, write_combined),
                            use(1, 0),
                            free_pinned(1),
                            free_pinned(2),
                            allocate_near(3, 20_MiB, near_first),
                            allocate_near(4, 24_MiB, near_second),  // needs what others have cached
                            use_once(3, 1),
                            free_pinned(3),
                            run_everything(),
                            free_pinned(4),
                            {"trim", [](World& world) { world.pinned->trim(0); }},
                            free_pinned(0),
                        }});
}

TEST_CASE("registered memory survives each driver call that fails once") {
  const auto own = std::make_unique<std::byte[]>(64_KiB);
  void* const data = own.get();
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual}) {
    survives_every_fault(
        {small_device(64_MiB, progress),
         make_registry_and_events,
         {
             {"make the allocator",
              [](World& world) {
                world.pinned.emplace(*world.registry, PinnedAllocatorOptions{});
              }},
             {"register", [=](World& world) { world.pinned->register_raw(data, 64_KiB); }},
             {"record a stream",
              [=](World& world) {
                world.log.submit(world.streams[0], "work");
                world.pinned->record_stream(data, world.streams[0]);
              }},
             {"record a use",
              [=](World& world) {
                world.log.submit(world.streams[1], "work");
                world.pinned->record_use(data, world.streams[1]);
              }},
             {"record a stream that goes away",
              [=](World& world) {
                world.log.submit(world.streams[2], "work");
                world.pinned->record_stream(data, world.streams[2]);
              }},
             {"destroy it", [](World& world) { world.streams.pop_back(); }},
             {"unregister", [=](World& world) { world.pinned->unregister(data); }},
             {"check", [=](World& world) { CHECK(world.pinned->bytes_registered() == 0); }},
         }});
  }
}

}  // namespace allocator_fault_test
