// SPDX-License-Identifier: Apache-2.0
// Memory by its address, and allocators behind their common interface.
#include <cstddef>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace find_test {

using namespace berth;
using namespace berth::test;

namespace {

const Device kDevice = Device::cuda(1);

sim::Config two_devices() {
  sim::Config config = manual_progress();
  config.devices = 2;
  return config;
}

/// The block is found by its first byte, by its last one, and by none beyond.
void check_found(Runtime& runtime, const Allocation& block, const Allocator& allocator) {
  const std::byte* const start = static_cast<const std::byte*>(block.data());
  for (const std::byte* data : {start, start + block.bytes() - 1}) {
    const std::optional<MemoryBlock> found = runtime.find(data);
    REQUIRE(found.has_value());
    CHECK(found->allocator == &allocator);
    CHECK(found->device == allocator.device());
    CHECK(found->data == block.data());
    CHECK(found->bytes == block.bytes());
  }
}

}  // namespace

TEST_CASE("Runtime::find() returns the block around an address and its allocator") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const StreamRef stream = runtime.default_stream(kDevice);
  DeviceAllocator& memory = runtime.memory(kDevice);
  MemoryPool pool = memory.create_pool({.name = "weights"});
  const Allocation device = memory.allocate(3 * kBlockAlignment, stream);
  const Allocation pooled = pool.allocate(1000, stream);
  const Allocation pinned = runtime.pinned_memory().allocate(5000);
  const Allocation host = runtime.host_memory().allocate(777);
  const Allocation beside = runtime.host_memory().allocate(64);
  check_found(runtime, device, memory);
  check_found(runtime, pooled, memory);  // which frees blocks of its private pools, too
  check_found(runtime, pinned, runtime.pinned_memory());
  check_found(runtime, host, runtime.host_memory());
  check_found(runtime, beside, runtime.host_memory());
  CHECK_FALSE(runtime.find(static_cast<std::byte*>(host.data()) + host.bytes()).has_value());
  CHECK(pool.find(pooled.data())->allocator == &pool);
  CHECK_FALSE(pool.find(device.data()).has_value());
}

TEST_CASE("Runtime::find() finds no freed, registered or foreign memory") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const StreamRef stream = runtime.default_stream(kDevice);
  Allocation device = runtime.memory(kDevice).allocate(100, stream);
  Allocation host = runtime.host_memory().allocate(100);
  const void* const freed[] = {device.data(), host.data()};
  device.reset();
  host.reset();
  for (const void* data : freed) CHECK_FALSE(runtime.find(data).has_value());
  std::vector<std::byte> own(64 << 10);
  const HostRegistration registered =
      runtime.pinned_memory().register_memory(own.data(), own.size());
  CHECK_FALSE(runtime.find(own.data()).has_value());
  CHECK_FALSE(runtime.find(nullptr).has_value());
  CHECK_FALSE(runtime.find(&runtime).has_value());
}

TEST_CASE("every allocator allocates for a stream behind the common interface") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  MemoryPool pool = runtime.memory(kDevice).create_pool({.name = "weights"});
  const Stream stream = runtime.create_stream(kDevice);
  for (Allocator* allocator :
       {static_cast<Allocator*>(&runtime.memory(kDevice)), static_cast<Allocator*>(&pool),
        static_cast<Allocator*>(&runtime.pinned_memory()),
        static_cast<Allocator*>(&runtime.host_memory())}) {
    CAPTURE(allocator->snapshot().allocator);
    CHECK(allocator->allocate_raw(0, stream) == nullptr);
    void* const data = allocator->allocate_raw(1000, stream);
    REQUIRE(data != nullptr);
    const bool is_host = allocator->device().is_cpu();
    CHECK(allocator->device() == (is_host ? Device::cpu() : kDevice));
    // Work that is pending when the block is freed delays its reuse by others.
    simulation.log.submit(stream, "uses the block");
    allocator->deallocate(data);
    CHECK(allocator->counters().blocks_pending.current == (is_host ? 1 : 0));
    CHECK(simulation.run_next(stream));
    allocator->validate();
  }
}

TEST_CASE("host memory that cannot be recorded for a stream is not allocated") {
  Simulation simulation(two_devices());
  Runtime& runtime = *simulation.runtime;
  const StreamRef refused = runtime.per_thread_default_stream(kDevice);
  for (Allocator* allocator : {static_cast<Allocator*>(&runtime.pinned_memory()),
                               static_cast<Allocator*>(&runtime.host_memory())}) {
    CHECK(
        contains(message_of<InvalidArgument>([&] { return allocator->allocate_raw(64, refused); }),
                 "per-thread"));
    CHECK(allocator->counters().blocks_allocated.current == 0);
  }
}

}  // namespace find_test
