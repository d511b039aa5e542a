// SPDX-License-Identifier: Apache-2.0
// Access of other devices to a device's memory: a device with access reaches all memory, present
// and future, and no other device does.
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memory/memory_fixture.hpp"
#include "sim/functions.hpp"
#include "support/errors.hpp"

namespace peer_access_test {

using namespace berth;
using namespace berth::test;

namespace {

const Device kOwner = Device::cuda(0);
const Device kUser = Device::cuda(1);
const Device kOther = Device::cuda(2);

sim::Config machine(const std::string& faults = {}, bool peer = true) {
  sim::Config config = small_device(64_MiB);
  config.devices = 3;
  config.peer = peer;
  config.faults = sim::FaultPlan::parse(faults);
  return config;
}

struct PeerTest : MemoryTest {
  explicit PeerTest(const sim::Config& config = machine(), DeviceAllocatorOptions options = {})
      : MemoryTest(config, std::move(options)) {}

  /// What the driver lets work of a device do with all of a block that is mapped.
  [[nodiscard]] bool is_open_to(Device device, const void* data, std::size_t bytes) const {
    CUmemLocation location{};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = device.ordinal();
    bool open = true;
    for (std::size_t offset = 0; offset < bytes; offset += 1_MiB) {
      unsigned long long flags = 0;
      const auto address = reinterpret_cast<CUdeviceptr>(data) + offset;
      REQUIRE(sim::berth_sim_cuMemGetAccess(&flags, &location, address) == CUDA_SUCCESS);
      open = open && flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return open;
  }
  [[nodiscard]] bool is_open_to(Device device, const Allocation& block) const {
    return is_open_to(device, block.data(), block.bytes());
  }
  /// Work of the user that reads and writes the block faults where it may not.
  void use(const Allocation& block) {
    const Stream stream = runtime->create_stream(kUser);
    REQUIRE(simulator.launch(stream.ref().native(), 0,
                             {{reinterpret_cast<CUdeviceptr>(block.data()), block.bytes(), true}}));
    stream.ref().sync();
  }
};

/// A block that is joined from holes between others, which stay.
std::pair<Allocation, std::vector<Allocation>> stitch(PeerTest& test, StreamRef stream) {
  std::vector<Allocation> blocks;
  for (int index = 0; index < 32; ++index) blocks.push_back(test.memory.allocate(2_MiB, stream));
  for (std::size_t index = 1; index < 9; index += 2) blocks[index] = {};
  Allocation stitched = test.memory.allocate(7_MiB, stream);
  REQUIRE(test.counters().page_remaps > 0);
  return {std::move(stitched), std::move(blocks)};
}

}  // namespace

TEST_CASE("a device with access reaches present and future mappings; no other device does") {
  with_each_backing([](const DeviceAllocatorOptions& options) {
    PeerTest test(machine(), options);
    const Stream stream = test.stream();
    const Allocation before = test.memory.allocate(5_MiB, stream);
    if (options.virtual_memory) CHECK_FALSE(test.is_open_to(kUser, before));
    test.runtime->enable_peer_access(kUser, kOwner);
    const Allocation after = test.memory.allocate(20_MiB, stream);
    for (const Allocation* block : {&before, &after}) {
      test.use(*block);
      if (!options.virtual_memory) continue;
      CHECK(test.is_open_to(kOwner, *block));
      CHECK(test.is_open_to(kUser, *block));
      CHECK_FALSE(test.is_open_to(kOther, *block));
    }
  });
}

TEST_CASE("a device with access reaches existing and later private pools") {
  PeerTest test;
  const Stream stream = test.stream();
  MemoryPool earlier = test.memory.create_pool({.name = "earlier"});
  const Allocation in_earlier = earlier.allocate(3_MiB, stream);
  test.runtime->enable_peer_access(kUser, kOwner);
  MemoryPool later = test.memory.create_pool({.name = "later"});
  const Allocation in_later = later.allocate(3_MiB, stream);
  CHECK(test.is_open_to(kUser, in_earlier));
  CHECK(test.is_open_to(kUser, in_later));
  { const MemoryPool gone = test.memory.create_pool({.name = "gone"}); }
  test.runtime->enable_peer_access(kOther, kOwner);
  CHECK(test.is_open_to(kOther, in_earlier));
  CHECK(test.is_open_to(kOther, in_later));
}

TEST_CASE("a device with access reaches second mappings") {
  for (const bool first : {true, false}) {
    CAPTURE(first);
    PeerTest test;
    const Stream stream = test.stream();
    if (first) test.runtime->enable_peer_access(kUser, kOwner);
    const auto blocks = stitch(test, stream);
    if (!first) {
      CHECK_FALSE(test.is_open_to(kUser, blocks.first));
      test.runtime->enable_peer_access(kUser, kOwner);
    }
    CHECK(test.is_open_to(kUser, blocks.first));
    test.use(blocks.first);
  }
}

TEST_CASE("memory of a pool that wakes is accessible to all devices that have access by then") {
  PeerTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "pool"});
  const Allocation block = pool.allocate(6_MiB, stream);
  test.runtime->enable_peer_access(kUser, kOwner);
  pool.sleep();
  test.runtime->enable_peer_access(kOther, kOwner);
  pool.wake();
  CHECK(test.is_open_to(kUser, block));
  CHECK(test.is_open_to(kOther, block));
}

TEST_CASE("access is enabled once for a pair, in one direction") {
  PeerTest test;
  const Stream stream = test.stream();
  const Allocation block = test.memory.allocate(6_MiB, stream);
  test.runtime->enable_peer_access(kUser, kOwner);
  const auto enabled = [&] { return test.simulator.calls("cuCtxEnablePeerAccess"); };
  const auto opened = [&] { return test.simulator.calls("cuMemSetAccess"); };
  CHECK(enabled() == 1);
  const std::uint64_t opened_once = opened();
  test.runtime->enable_peer_access(kUser, kOwner);
  CHECK(enabled() == 1);
  CHECK(opened() == opened_once);
  DeviceAllocator& of_user = test.runtime->memory(kUser);
  const Stream of_user_stream = test.runtime->create_stream(kUser);
  const Allocation other_way = of_user.allocate(6_MiB, of_user_stream);
  CHECK_FALSE(test.is_open_to(kOwner, other_way));
}

TEST_CASE("a copy between two devices enables access of the copying device") {
  PeerTest test;
  const Stream stream = test.stream();
  const Stream of_user = test.runtime->create_stream(kUser);
  const Allocation source = test.memory.allocate(6_MiB, stream);
  const Allocation target = test.runtime->memory(kUser).allocate(6_MiB, of_user);
  test.runtime->copier().start(target.data(), source.data(), 6_MiB, of_user).wait();
  CHECK(test.is_open_to(kUser, source));
  CHECK_FALSE(test.is_open_to(kOwner, target));
}

TEST_CASE("identical, missing or unconnected devices and cpu are refused by name") {
  PeerTest test(machine({}, false));
  Runtime& runtime = *test.runtime;
  const auto refusal = [&](Device user, Device owner) {
    return message_of<Error>([&] { runtime.enable_peer_access(user, owner); });
  };
  CHECK(contains(message_of<NotSupported>([&] { runtime.enable_peer_access(kUser, kOwner); }),
                 "cuda:1 cannot access memory of cuda:0"));
  CHECK(contains(refusal(kUser, kUser), "cuda:1"));
  CHECK(contains(refusal(kUser, kUser), "accepted: two devices"));
  CHECK(contains(refusal(Device::cpu(), kOwner), "cpu"));
  CHECK(contains(refusal(kUser, Device::cuda(3)), "cuda:3"));
  CHECK(test.simulator.calls("cuCtxEnablePeerAccess") == 0);
}

TEST_CASE("after a driver failure access is unchanged, and a retry succeeds") {
  for (const char* const fault : {"cuCtxEnablePeerAccess@1=unknown", "cuMemSetAccess@2=unknown"}) {
    CAPTURE(fault);
    PeerTest test(machine(fault));
    const Stream stream = test.stream();
    const Allocation before = test.memory.allocate(5_MiB, stream);
    message_of<DriverError>([&] { test.runtime->enable_peer_access(kUser, kOwner); });
    const Allocation between = test.memory.allocate(20_MiB, stream);
    CHECK_FALSE(test.is_open_to(kUser, between));
    test.memory.validate();
    test.runtime->enable_peer_access(kUser, kOwner);
    CHECK(test.is_open_to(kUser, before));
    CHECK(test.is_open_to(kUser, between));
  }
}

TEST_CASE("after a failure for one of several pools a retry grants access to each of them once") {
  for (int call = 2; call <= 8; ++call) {
    CAPTURE(call);
    PeerTest test(machine("cuMemSetAccess@" + std::to_string(call) + "=unknown"));
    const Stream stream = test.stream();
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    MemoryPool contiguous = test.memory.create_pool({.name = "contiguous", .contiguous = true});
    std::vector<Allocation> blocks;
    const auto allocate = [&] {
      for (int attempt = 0; attempt < 2; ++attempt) {
        try {
          blocks.push_back(test.memory.allocate(3_MiB, stream));
          blocks.push_back(pool.allocate(3_MiB, stream));
          blocks.push_back(contiguous.allocate(3_MiB, stream));
          return;
        } catch (const DriverError&) {
          CHECK(attempt == 0);
        }
      }
    };
    allocate();
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        test.runtime->enable_peer_access(kUser, kOwner);
      } catch (const DriverError&) {
        CHECK(attempt == 0);
      }
    }
    allocate();
    for (const Allocation& block : blocks) CHECK(test.is_open_to(kUser, block));
  }
}

TEST_CASE("memory that cannot be made accessible to a device with access is not handed out") {
  PeerTest test(machine("cuMemSetAccess@3=unknown"));
  const Stream stream = test.stream();
  const Allocation before = test.memory.allocate(2_MiB, stream);
  test.runtime->enable_peer_access(kUser, kOwner);
  message_of<DriverError>([&] { static_cast<void>(test.memory.allocate(20_MiB, stream)); });
  test.memory.validate();
  const Allocation after = test.memory.allocate(20_MiB, stream);
  CHECK(test.is_open_to(kOwner, after));
  CHECK(test.is_open_to(kUser, after));
}

TEST_CASE("access is granted while pools are created, closed and grown") {
  PeerTest test;
  const Stream stream = test.stream();
  std::atomic<bool> done = false;
  std::thread others([&] {
    const Stream own = test.runtime->create_stream(kOwner);
    while (!done) {
      MemoryPool pool = test.memory.create_pool({.name = "pool"});
      const Allocation block = pool.allocate(3_MiB, own);
      const Allocation beside = test.memory.allocate(5_MiB, own);
    }
  });
  for (const Device user : {kUser, kOther}) {
    test.runtime->enable_peer_access(user, kOwner);
    MemoryPool pool = test.memory.create_pool({.name = "mine"});
    const Allocation block = pool.allocate(3_MiB, stream);
    CHECK(test.is_open_to(user, block));
    test.memory.trim();
  }
  done = true;
  others.join();
  test.memory.validate();
}

}  // namespace peer_access_test
