// SPDX-License-Identifier: Apache-2.0
#include "memory/source/arena.hpp"

#include <random>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "memory/source/physical_memory.hpp"
#include "support/death.hpp"
#include "support/errors.hpp"
#include "support/tapped_device.hpp"

namespace arena_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranule = 2_MiB;

sim::Config device_of(std::uint64_t bytes) {
  sim::Config config;
  config.memory = {bytes};
  return config;
}

/// An arena of 16 granules on a device with memory for 8.
struct ArenaFixture : TappedDevice {
  ArenaFixture() : TappedDevice(device_of(8 * kGranule)) {}

  [[nodiscard]] std::uintptr_t granule(std::size_t index) const {
    return arena.address() + index * kGranule;
  }
  /// Whether the device can write every byte of a granule.
  [[nodiscard]] bool is_writable(std::size_t index) {
    const ContextScope scope(context);
    const bool written = driver.try_memset_d8_async(CUdeviceptr{granule(index)},
                                                    static_cast<unsigned char>(index + 1), kGranule,
                                                    CUstream{nullptr}) == CUDA_SUCCESS &&
                         driver.try_stream_synchronize(CUstream{nullptr}) == CUDA_SUCCESS;
    const auto content = simulator.peek(granule(index) + kGranule - 1, 1);
    return written && content == std::vector<unsigned char>{static_cast<unsigned char>(index + 1)};
  }

  Arena arena{context, 16 * kGranule, kGranule};
};

/// Gives the process back its limit of address space.
struct AddressSpaceLimit {
  AddressSpaceLimit() { getrlimit(RLIMIT_AS, &before); }
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &before); }
  rlimit before{};
};

}  // namespace

TEST_CASE_FIXTURE(ArenaFixture, "a refused reservation names the bytes and the process's limit") {
  const auto refusal = [&] {
    tap.refuse(DriverCall::mem_address_reserve, CUDA_ERROR_OUT_OF_MEMORY);
    return message_of<DriverError>([&] { return Arena(context, 16 * kGranule, kGranule).bytes(); });
  };
  const AddressSpaceLimit limit;
  const rlimit unlimited{RLIM_INFINITY, limit.before.rlim_max};
  if (setrlimit(RLIMIT_AS, &unlimited) == 0) {
    CHECK(contains(refusal(),
                   "asked for 32.0 MiB of address space; accepted: a higher limit of address space "
                   "(ulimit -v), or virtual_memory=off"));
  }
  const rlimit limited{rlim_t{1} << 50, limit.before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_AS, &limited) == 0);
  CHECK(contains(refusal(), "the process may have 1024 TiB in all (ulimit -v)"));
  CHECK(simulator.live().reservations == 1);
}

TEST_CASE_FIXTURE(ArenaFixture,
                  "an arena is address space without memory, aligned to its granule") {
  CHECK(arena.bytes() == 16 * kGranule);
  CHECK(arena.granule_bytes() == kGranule);
  CHECK(arena.address() % kGranule == 0);
  CHECK(simulator.live().reservations == 1);
  CHECK(simulator.live().physical_handles == 0);
  CHECK(simulator.device_bytes_used(0) == 0);
}

TEST_CASE_FIXTURE(ArenaFixture, "an arena contains its first and last byte, and none outside") {
  CHECK(arena.contains(arena.address()));
  CHECK(arena.contains(arena.address() + arena.bytes() - 1));
  CHECK_FALSE(arena.contains(arena.address() - 1));
  CHECK_FALSE(arena.contains(arena.address() + arena.bytes()));
  CHECK_FALSE(arena.contains(0));
  CHECK_FALSE(arena.contains(~std::uintptr_t{0}));
}

TEST_CASE_FIXTURE(ArenaFixture,
                  "mapped granules are writable throughout, and others are not mapped") {
  CHECK(arena.map(granule(3), 2 * kGranule));
  for (const std::size_t index : {2, 3, 4, 5}) {
    CAPTURE(index);
    CHECK(is_writable(index) == (index == 3 || index == 4));
  }
  CHECK(simulator.device_bytes_used(0) == 2 * kGranule);
  CHECK(simulator.live().mappings == 2);
}

TEST_CASE_FIXTURE(ArenaFixture, "unmapping returns the memory of that range only") {
  REQUIRE(arena.map(granule(0), 6 * kGranule));
  arena.unmap(granule(2), 3 * kGranule);
  CHECK(simulator.device_bytes_used(0) == 3 * kGranule);
  CHECK(simulator.live().physical_handles == 3);
  for (std::size_t index = 0; index < 7; ++index) {
    CAPTURE(index);
    CHECK(is_writable(index) == (index < 2 || index == 5));
  }
  CHECK(arena.map(granule(3), kGranule));
  CHECK(is_writable(3));
  arena.unmap_all();
  CHECK(simulator.live().mappings == 0);
  CHECK(simulator.live().physical_handles == 0);
  CHECK(arena.map(granule(0), 8 * kGranule));
}

TEST_CASE_FIXTURE(ArenaFixture, "the last granule is mapped and unmapped like any other") {
  CHECK(arena.map(granule(15), kGranule));
  CHECK(is_writable(15));
  arena.unmap(granule(15), kGranule);
  CHECK(simulator.live().mappings == 0);
}

TEST_CASE_FIXTURE(ArenaFixture,
                  "mapping more than the device has is refused, and nothing is mapped or lost") {
  REQUIRE(arena.map(granule(0), kGranule));
  const sim::Live before = simulator.live();
  CHECK_FALSE(arena.map(granule(1), 8 * kGranule));
  CHECK(simulator.live() == before);
  CHECK(simulator.device_bytes_used(0) == kGranule);
  CHECK(arena.map(granule(1), 7 * kGranule));
  CHECK(is_writable(0));
  CHECK(is_writable(7));
}

TEST_CASE_FIXTURE(ArenaFixture,
                  "sleeping granules wake at their addresses once there is memory for all") {
  REQUIRE(arena.map(granule(1), 2 * kGranule));
  REQUIRE(arena.map(granule(6), 3 * kGranule));
  CHECK_FALSE(arena.sleep());
  CHECK(arena.asleep_bytes() == 5 * kGranule);
  CHECK(simulator.device_bytes_used(0) == 0);
  {
    Arena other(context, 4 * kGranule, kGranule);
    REQUIRE(other.map(other.address(), 4 * kGranule));
    const sim::Live before = simulator.live();
    CHECK_FALSE(arena.wake());  // there is memory for the first two
    CHECK(simulator.live() == before);
  }
  CHECK(arena.wake());
  for (std::size_t index = 0; index < 10; ++index) {
    CAPTURE(index);
    CHECK(is_writable(index) == (index == 1 || index == 2 || (index >= 6 && index <= 8)));
  }
}

TEST_CASE_FIXTURE(ArenaFixture,
                  "a driver failure in any step of mapping leaks nothing, and a retry succeeds") {
  for (const DriverCall call :
       {DriverCall::mem_create, DriverCall::mem_map, DriverCall::mem_set_access}) {
    const int calls = call == DriverCall::mem_set_access ? 1 : 4;
    for (int nth = 1; nth <= calls; ++nth) {
      CAPTURE(kDriverCallNames[std::size_t(call)]);
      CAPTURE(nth);
      REQUIRE(arena.map(granule(9), kGranule));
      const sim::Live before = simulator.live();
      tap.refuse(call, CUDA_ERROR_UNKNOWN, nth);
      CHECK_THROWS_AS(arena.map(granule(5), 4 * kGranule), DriverError);
      CHECK(simulator.live() == before);
      CHECK(simulator.device_bytes_used(0) == kGranule);
      CHECK(is_writable(9));
      CHECK(arena.map(granule(5), 4 * kGranule));
      for (std::size_t index = 5; index < 9; ++index) CHECK(is_writable(index));
      arena.unmap_all();
    }
  }
  CHECK(reports.all().empty());
}

TEST_CASE_FIXTURE(ArenaFixture, "an unmapping that the driver refuses is reported and not thrown") {
  REQUIRE(arena.map(granule(0), kGranule));
  tap.refuse(DriverCall::mem_unmap, CUDA_ERROR_UNKNOWN);
  arena.unmap(granule(0), kGranule);
  CHECK(reports.count(Severity::error) == 1);
  CHECK(reports.mention("cuMemUnmap"));
  const ContextScope scope(context);
  driver.mem_unmap(CUdeviceptr{granule(0)}, kGranule);  // so that nothing is left
}

TEST_CASE("the destructor of an arena frees its address space and memory") {
  TappedDevice device(device_of(8 * kGranule));
  {
    Arena arena(device.context, 16 * kGranule, kGranule);
    REQUIRE(arena.map(arena.address() + kGranule, 3 * kGranule));
  }
  CHECK(device.simulator.live().reservations == 0);
  CHECK(device.simulator.live().mappings == 0);
  CHECK(device.simulator.device_bytes_used(0) == 0);
}

TEST_CASE("address space that the driver refuses is an error that names the call") {
  TappedDevice device(device_of(8 * kGranule));
  device.tap.refuse(DriverCall::mem_address_reserve, CUDA_ERROR_OUT_OF_MEMORY);
  try {
    const Arena arena(device.context, 16 * kGranule, kGranule);
    FAIL("an arena without address space");
  } catch (const DriverError& error) {
    CHECK(std::string(error.what()).find("cuMemAddressReserve") != std::string::npos);
  }
}

TEST_CASE("a granule larger than the device's least one is mapped as one") {
  TappedDevice device(device_of(64_MiB));
  Arena arena(device.context, 64_MiB, 8_MiB);
  REQUIRE(arena.map(arena.address(), 16_MiB));
  CHECK(device.simulator.live().physical_handles == 2);
  CHECK(device.simulator.device_bytes_used(0) == 16_MiB);
}

TEST_CASE("the device's least granule is the one that the driver reports") {
  for (const std::size_t bytes : {64_KiB, 2_MiB, 32_MiB}) {
    sim::Config config;
    config.granularity = bytes;
    TappedDevice device(config);
    CHECK(minimum_granule_bytes(device.context) == bytes);
  }
}

TEST_CASE("virtual memory needs support by the device and all functions of the driver") {
  {
    const TappedDevice device;
    CHECK(supports_virtual_memory(device.context));
  }
  {
    sim::Config config;
    config.vmm = false;
    const TappedDevice device(config);
    CHECK_FALSE(supports_virtual_memory(device.context));
  }
  for (const DriverCall call :
       {DriverCall::mem_get_allocation_granularity, DriverCall::mem_address_reserve,
        DriverCall::mem_address_free, DriverCall::mem_create, DriverCall::mem_release,
        DriverCall::mem_map, DriverCall::mem_unmap, DriverCall::mem_set_access}) {
    CAPTURE(kDriverCallNames[std::size_t(call)]);
    TappedDevice device;
    device.tap.hide(call);
    const Driver old(device.tap.source(), {});
    REQUIRE(old.usable());
    const DeviceContext context(old, Device::cuda(0), device.context.native());
    CHECK_FALSE(supports_virtual_memory(context));
  }
}

TEST_CASE_FIXTURE(ArenaFixture, "mapping a mapped or unaligned range stops the process") {
  REQUIRE(arena.map(granule(2), kGranule));
  CHECK(stops_the_process([&] { arena.map(granule(1), 2 * kGranule); }));
  CHECK(stops_the_process([&] { arena.map(granule(1) + 512, kGranule); }));
  CHECK(stops_the_process([&] { arena.map(granule(1), kGranule / 2); }));
  CHECK(stops_the_process([&] { arena.map(granule(1), 0); }));
  CHECK(stops_the_process([&] { arena.map(granule(16), kGranule); }));
  CHECK(stops_the_process([&] { arena.unmap(granule(1), kGranule); }));
  CHECK(stops_the_process([&] { arena.unmap(granule(2) + 512, kGranule); }));
}

TEST_CASE_FIXTURE(ArenaFixture,
                  "random mapping and unmapping keeps mapped bytes and frees the rest") {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<bool> mapped(16, false);
    std::size_t count = 0;
    for (int operation = 0; operation < 150; ++operation) {
      const std::size_t first = random() % 16;
      const bool maps = !mapped[first];
      std::size_t end = first;
      while (end < 16 && mapped[end] != maps && end - first < 4) ++end;
      const std::size_t granules = end - first;
      if (maps) {
        const bool fits = count + granules <= 8;
        REQUIRE(arena.map(granule(first), granules * kGranule) == fits);
        if (!fits) continue;
        count += granules;
      } else {
        arena.unmap(granule(first), granules * kGranule);
        count -= granules;
      }
      std::fill(mapped.begin() + std::ptrdiff_t(first), mapped.begin() + std::ptrdiff_t(end), maps);
      REQUIRE(simulator.live().mappings == count);
      REQUIRE(simulator.live().physical_handles == count);
      REQUIRE(is_writable(first) == maps);
    }
    arena.unmap_all();
  }
}

}  // namespace arena_test
