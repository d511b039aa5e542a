// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/memory_kind.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/host_allocator.hpp"
#include "berth/host_registration.hpp"

#include "memory/source/arena.hpp"
#include "support/errors.hpp"
#include "support/tapped_device.hpp"

namespace memory_kind_test {

using namespace berth;
using namespace berth::test;

namespace {

sim::Config two_devices() {
  sim::Config config;
  config.devices = 2;
  config.memory = {64_MiB};
  return config;
}

struct KindFixture : TappedDevice {
  KindFixture() : TappedDevice(two_devices()) {}

  MemoryKind kind_of(const void* data, std::size_t bytes = 1) {
    const ContextScope scope(context);
    return find_allocation(registry, {pinned, host}, driver, data, bytes).kind;
  }
  /// How often the driver is asked about a range, which is pageable.
  std::uint64_t queries_of(const void* data, std::size_t bytes) {
    const std::uint64_t before = simulator.calls("cuPointerGetAttributes");
    CHECK(kind_of(data, bytes).type == MemoryKind::Type::pageable);
    return simulator.calls("cuPointerGetAttributes") - before;
  }
  void check_pageable(const void* data) {
    const MemoryKind kind = kind_of(data);
    CHECK(kind.type == MemoryKind::Type::pageable);
    CHECK(kind.is_host());
    CHECK(kind.device == nullptr);
    CHECK(kind.pinned.data == nullptr);
  }
  void check_pinned(const void* data, void* block) {
    const MemoryKind kind = kind_of(data);
    CHECK(kind.type == MemoryKind::Type::pinned);
    CHECK(kind.is_host());
    CHECK(kind.device == nullptr);
    CHECK(kind.pinned.data == block);
  }
  void check_device(const void* data, const DeviceContext& device) {
    const MemoryKind kind = kind_of(data);
    CHECK(kind.type == MemoryKind::Type::device);
    CHECK_FALSE(kind.is_host());
    CHECK(kind.device == &device);
    CHECK(kind.pinned.data == nullptr);
  }

  PinnedAllocator pinned{registry, {}};
  HostAllocator host{registry, {}};
};

const void* pointer(CUdeviceptr address) {
  return reinterpret_cast<const void*>(address);
}

}  // namespace

TEST_CASE_FIXTURE(KindFixture, "memory unknown to CUDA is pageable") {
  const int on_stack = 0;
  static const int global = 0;
  const auto on_heap = std::make_unique<int>(0);
  check_pageable(&on_stack);
  check_pageable(&global);
  check_pageable(on_heap.get());
  check_pageable("a literal");
}

TEST_CASE_FIXTURE(
    KindFixture,
    "a live pinned block is pinned from its first byte to its last, without a driver call") {
  const Allocation block = pinned.allocate(10'000);
  auto* const data = static_cast<char*>(block.data());
  const std::uint64_t asked = simulator.calls("cuPointerGetAttributes");
  check_pinned(data, data);
  check_pinned(data + 1, data);
  check_pinned(data + 9'999, data);
  CHECK(simulator.calls("cuPointerGetAttributes") == asked);
}

TEST_CASE_FIXTURE(
    KindFixture,
    "a range within a block of the host allocator is pageable, without a driver call") {
  const Allocation block = host.allocate(10'000);
  const auto* const data = static_cast<const char*>(block.data());
  CHECK(queries_of(data, 10'000) == 0);
  CHECK(queries_of(data + 9'999, 1) == 0);
  CHECK(queries_of(data + 1, 9'999) == 0);
  CHECK(queries_of(data, 10'001) == 1);
  CHECK(queries_of(data + 9'999, 2) == 1);
  CHECK(queries_of(data + 10'000, 1) == 1);
  CHECK(queries_of(data - 1, 2) == 1);
  const auto first = std::make_unique<char[]>(100);
  CHECK(queries_of(first.get(), 100) == 1);
}

TEST_CASE_FIXTURE(KindFixture, "a block of the host allocator that is registered is pinned") {
  const Allocation block = host.allocate(64_KiB);
  auto* const data = static_cast<char*>(block.data());
  {
    const HostRegistration registration = pinned.register_memory(data + 4096, 4096);
    check_pinned(data + 4096, data + 4096);
    check_pinned(data + 8191, data + 4096);
    CHECK(queries_of(data, 4096) == 0);
    CHECK(queries_of(data + 8192, 4096) == 0);
  }
  CHECK(queries_of(data + 4096, 4096) == 0);

  PinnedAllocator of_another_runtime(registry, {});
  const HostRegistration registration = of_another_runtime.register_memory(data, 4096);
  check_pinned(data + 100, data);
  CHECK(queries_of(data + 4096, 4096) == 0);
}

TEST_CASE_FIXTURE(KindFixture,
                  "memory at the address of a freed block has the kind that the driver reports") {
  constexpr std::size_t kBytes = 10'000;
  void* const data = host.allocate_raw(kBytes);
  const auto block = std::make_unique<char[]>(kBytes);  // the freed memory stays mapped below it
  CHECK(queries_of(data, kBytes) == 0);
  std::thread([&] { host.deallocate(data); }).join();
  CHECK(queries_of(data, kBytes) == 1);
  // As the next user of the address does.
  {
    const ContextScope scope(context);
    driver.mem_host_register(data, kBytes, 0u);
  }
  check_pinned(data, nullptr);
  {
    const ContextScope scope(context);
    driver.mem_host_unregister(data);
  }
  {
    PinnedAllocator of_another_runtime(registry, {});
    const HostRegistration registration = of_another_runtime.register_memory(data, kBytes);
    check_pinned(data, data);
  }
  CHECK(queries_of(data, kBytes) == 1);
}

TEST_CASE_FIXTURE(KindFixture, "pinned memory that is free is refused") {
  void* freed = nullptr;
  {
    const Allocation block = pinned.allocate(1000);
    freed = block.data();
  }
  const ContextScope scope(context);
  const std::string refusal = message_of<InvalidArgument>([&] {
    static_cast<void>(find_allocation(registry, {pinned, host}, driver, freed, 1));
  });
  CHECK(contains(refusal, "is in free pinned memory; accepted: memory of a live block"));
}

TEST_CASE_FIXTURE(KindFixture, "pinned memory of other allocators is pinned but no block") {
  void* foreign = nullptr;
  std::vector<char> registered(64_KiB);
  {
    const ContextScope scope(context);
    driver.mem_host_alloc(&foreign, std::size_t{4096}, 0u);
    driver.mem_host_register(registered.data(), registered.size(), 0u);
  }
  check_pinned(foreign, nullptr);
  check_pinned(static_cast<char*>(foreign) + 4095, nullptr);
  check_pinned(registered.data(), nullptr);
  check_pinned(registered.data() + registered.size() - 1, nullptr);

  const ContextScope scope(context);
  driver.mem_free_host(foreign);
  driver.mem_host_unregister(registered.data());
  check_pageable(registered.data());
}

TEST_CASE_FIXTURE(KindFixture,
                  "device memory belongs to the device that it was allocated on, inside too") {
  for (const int ordinal : {0, 1}) {
    CAPTURE(ordinal);
    DeviceContext& device = registry.context(Device::cuda(ordinal));
    CUdeviceptr address = 0;
    {
      const ContextScope scope(device);
      driver.mem_alloc(&address, std::size_t{4096});
    }
    check_device(pointer(address), device);
    check_device(pointer(address + 4095), device);
    const ContextScope scope(device);
    driver.mem_free(address);
  }
}

TEST_CASE_FIXTURE(KindFixture, "managed memory belongs neither to the host nor to one device") {
  CUdeviceptr address = 0;
  {
    const ContextScope scope(context);
    REQUIRE(sim::berth_sim_cuMemAllocManaged(&address, 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  }
  const MemoryKind kind = kind_of(pointer(address + 4095));
  CHECK(kind.type == MemoryKind::Type::managed);
  CHECK_FALSE(kind.is_host());
  CHECK(kind.device == nullptr);
  const ContextScope scope(context);
  driver.mem_free(address);
}

TEST_CASE_FIXTURE(KindFixture, "the allocation of an address is found with one driver call") {
  CUdeviceptr address = 0;
  const ContextScope scope(context);
  driver.mem_alloc(&address, std::size_t{4096});
  const std::uint64_t asked = simulator.calls("cuPointerGetAttributes");
  const AllocationInfo place =
      find_allocation(registry, {pinned, host}, driver, pointer(address + 100), 1);
  CHECK(simulator.calls("cuPointerGetAttributes") == asked + 1);
  CHECK(place.kind.device == &context);
  CHECK(place.begin == address);
  CHECK(place.end == address + 4096);
  driver.mem_free(address);

  const int local = 0;
  const AllocationInfo unknown = find_allocation(registry, {pinned, host}, driver, &local, 1);
  CHECK(unknown.kind.type == MemoryKind::Type::pageable);
  CHECK(unknown.begin == 0);
}

TEST_CASE_FIXTURE(KindFixture, "memory mapped into an arena belongs to the device") {
  DeviceContext& second = registry.context(Device::cuda(1));
  Arena arena(second, 8_MiB, 2_MiB);
  REQUIRE(arena.map(arena.address() + 2_MiB, 2_MiB));
  check_device(pointer(arena.address() + 3_MiB), second);
}

TEST_CASE_FIXTURE(KindFixture, "a failed attribute query is an error, not pageable memory") {
  const int local = 0;
  tap.refuse(DriverCall::pointer_get_attributes, CUDA_ERROR_UNKNOWN);
  const std::string message = message_of<DriverError>([&] { return kind_of(&local); });
  CHECK(contains(message, "cuPointerGetAttributes"));
  check_pageable(&local);
}

TEST_CASE_FIXTURE(KindFixture, "memory of a device that is not visible is refused by its address") {
  CUdeviceptr address = 0;
  {
    const ContextScope scope(context);
    driver.mem_alloc(&address, std::size_t{4096});
  }
  // A registry that knows no device stands for one from which this one is hidden.
  const Driver none(DriverSource{}, {});
  const DeviceRegistry empty(none, nvml);
  const ContextScope scope(context);
  const std::string message = message_of<InvalidArgument>([&] {
    return find_allocation(empty, {pinned, host}, driver, pointer(address), 1);
  });
  CHECK(contains(message, "not visible"));
  driver.mem_free(address);
}

}  // namespace memory_kind_test
