// SPDX-License-Identifier: Apache-2.0
// Pools whose blocks each lie in one physical allocation, and the properties of a block.
#include <cstdint>
#include <optional>
#include <vector>

#include "berth/bytes.hpp"

#include "memory/memory_fixture.hpp"
#include "sim/functions.hpp"
#include "support/captured_graph.hpp"
#include "support/errors.hpp"

namespace contiguous_pool_test {

using namespace berth;
using namespace berth::test;

namespace {

const MemoryPoolOptions kContiguous{.name = "shared", .contiguous = true};

bool lies_in(const void* data, std::size_t bytes, const MemoryProperties& properties) {
  const auto start = reinterpret_cast<std::uintptr_t>(properties.segment);
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return begin >= start && begin + bytes <= start + properties.segment_bytes;
}

}  // namespace

TEST_CASE("a block of a contiguous pool lies in one physical allocation") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool(kContiguous);
  for (const std::size_t bytes : {std::size_t{1}, 3_MiB, 9_MiB, 10_MiB, 33_MiB}) {
    CAPTURE(bytes);
    const Allocation block = pool.allocate(bytes, stream);
    const std::uint64_t created = driver_calls(*test.runtime, "cuMemCreate");
    const std::optional<MemoryProperties> found = pool.properties(block.data());
    REQUIRE(found.has_value());
    CHECK(found->is_contiguous);
    CHECK(found->is_exportable);
    CHECK_FALSE(found->is_rdma_capable);  // the simulated device is not
    CHECK(lies_in(block.data(), bytes, *found));
    const void* const inside = static_cast<const std::byte*>(block.data()) + bytes - 1;
    CHECK(test.memory.properties(inside)->segment == found->segment);
    CHECK(driver_calls(*test.runtime, "cuMemCreate") == created);
  }
  CHECK(driver_calls(*test.runtime, "cuMemCreate") == driver_calls(*test.runtime, "cuMemMap"));
  pool.validate();
}

TEST_CASE("memory has fabric handles only if the pool asks for them and the device has them") {
  sim::Config config;
  config.fabric = true;
  config.rdma = true;
  MemoryTest test(config);
  const Stream stream = test.stream();
  MemoryPool plain = test.memory.create_pool(kContiguous);
  const Allocation other = plain.allocate(1_MiB, stream);
  CHECK_FALSE(plain.properties(other.data())->is_fabric_exportable);
  CHECK(plain.properties(other.data())->is_rdma_capable);

  MemoryPool pool = test.memory.create_pool({.name = "net", .contiguous = true, .fabric = true});
  const Allocation block = pool.allocate(1_MiB, stream);
  const std::optional<MemoryProperties> found = pool.properties(block.data());
  REQUIRE(found.has_value());
  CHECK(found->is_fabric_exportable);
  CHECK(found->is_exportable);
  CHECK(found->is_rdma_capable);
  // As NCCL and NVSHMEM do it.
  CUmemGenericAllocationHandle handle = 0;
  CUmemFabricHandle fabric{};
  REQUIRE(sim::berth_sim_cuMemRetainAllocationHandle(&handle, found->segment) == CUDA_SUCCESS);
  CHECK(sim::berth_sim_cuMemExportToShareableHandle(&fabric, handle, CU_MEM_HANDLE_TYPE_FABRIC,
                                                    0) == CUDA_SUCCESS);
  REQUIRE(sim::berth_sim_cuMemRelease(handle) == CUDA_SUCCESS);

  CHECK(contains(message_of<InvalidArgument>([&] {
                   static_cast<void>(test.memory.create_pool({.name = "net", .fabric = true}));
                 }),
                 "fabric without contiguous; accepted: both"));
}

TEST_CASE("a device without fabric handles refuses a pool with them by name") {
  MemoryTest test;
  const MemoryPoolOptions options{.name = "net", .contiguous = true, .fabric = true};
  CHECK(contains(
      message_of<NotSupported>([&] { static_cast<void>(test.memory.create_pool(options)); }),
      "pool \"net\" cannot have fabric handles: cuda:0 has no CU_DEVICE_ATTRIBUTE"));
  static_cast<void>(test.memory.create_pool(kContiguous));
}

TEST_CASE("small blocks share an allocation, and large ones have their own") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool(kContiguous);
  const Allocation a = pool.allocate(1_MiB, stream);
  const Allocation b = pool.allocate(1_MiB, stream);
  const Allocation large = pool.allocate(30_MiB, stream);
  CHECK(pool.properties(a.data())->segment == pool.properties(b.data())->segment);
  CHECK(pool.properties(a.data())->segment_bytes == DeviceAllocatorOptions().segment_bytes);
  CHECK(pool.properties(large.data())->segment == large.data());
  CHECK(pool.properties(large.data())->segment_bytes == 30_MiB);
}

TEST_CASE("memory of a contiguous pool is never stitched") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool(kContiguous);
  std::vector<Allocation> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.allocate(20_MiB, stream));
  blocks.erase(blocks.begin());
  blocks.erase(blocks.begin() + 1);
  const std::uint64_t mapped = driver_calls(*test.runtime, "cuMemMap");
  const Allocation larger = pool.allocate(40_MiB, stream);
  CHECK(pool.properties(larger.data())->segment == larger.data());
  CHECK(driver_calls(*test.runtime, "cuMemMap") == mapped + 1);
  pool.validate();
}

TEST_CASE("blocks of other pools consist of granules, and have no allocation of their own") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool({.name = "other"});
  const Allocation block = pool.allocate(3_MiB, stream);
  const Allocation own = test.memory.allocate(3_MiB, stream);
  for (const void* const data : {block.data(), own.data()}) {
    const auto found = test.memory.properties(data);
    REQUIRE(found.has_value());
    CHECK_FALSE(found->is_contiguous);
    CHECK_FALSE(found->is_exportable);
    CHECK(found->segment == nullptr);
    CHECK(found->segment_bytes == 0);
  }
  CHECK_FALSE(pool.properties(own.data()).has_value());
  CHECK_FALSE(test.memory.properties(&test).has_value());
  CHECK_FALSE(test.memory.properties(nullptr).has_value());
}

TEST_CASE("without virtual memory every pool is contiguous, and none is exportable") {
  DeviceAllocatorOptions options;
  options.virtual_memory = false;
  MemoryTest test({}, options);
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool(kContiguous);
  const Allocation block = pool.allocate(3_MiB, stream);
  const auto found = pool.properties(block.data());
  REQUIRE(found.has_value());
  CHECK(found->is_contiguous);
  CHECK_FALSE(found->is_exportable);
  CHECK(found->segment == nullptr);
}

TEST_CASE("sleep() of a contiguous pool is refused with the reason") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool(kContiguous);
  const Allocation block = pool.allocate(3_MiB, stream);
  const auto refused = [](auto&& sleep) {
    CHECK(contains(message_of<NotSupported>(sleep), "a contiguous pool cannot sleep"));
  };
  refused([&] { return pool.sleep(); });
  refused([&] { return test.memory.sleep("shared"); });
  CHECK_FALSE(pool.is_asleep());
  const Allocation next = pool.allocate(3_MiB, stream);
}

TEST_CASE("unused allocations of a contiguous pool are returned as a whole") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool(kContiguous);
  const Allocation kept = pool.allocate(1_MiB, stream);
  pool.allocate(30_MiB, stream).reset();
  CHECK(pool.counters().bytes_reserved.current == 50_MiB);
  CHECK(pool.trim() == 30_MiB);
  CHECK(test.simulator.device_bytes_used(0) == 20_MiB);
  CHECK(pool.properties(kept.data())->is_contiguous);
}

TEST_CASE("a contiguous pool for graphs serves captured streams, and keeps its memory") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool pool =
      test.memory.create_pool({.name = "shared", .for_graphs = true, .contiguous = true});
  begin_capture(stream);
  Allocation block = pool.allocate(3_MiB, stream);
  void* const data = block.data();
  CHECK(pool.properties(data)->is_contiguous);
  block.reset();
  const CapturedGraph graph(stream);
  const std::size_t reserved = pool.counters().bytes_reserved.current;
  CHECK(pool.trim(0) == 0);
  CHECK(pool.counters().bytes_reserved.current == reserved);
  CHECK(pool.allocate(3_MiB, stream).data() == data);
  pool.validate();
}

TEST_CASE("a contiguous pool keeps to its limit, and the error names it") {
  MemoryTest test;
  const Stream stream = test.stream();
  MemoryPool pool = test.memory.create_pool(
      {.name = "shared", .limits = {.bytes_reserved_max = 40_MiB}, .contiguous = true});
  const Allocation a = pool.allocate(20_MiB, stream);
  const std::string message =
      message_of<OutOfMemory>([&] { return pool.allocate(30_MiB, stream); });
  CHECK(contains(message, "cuda:0/shared"));
  const Allocation b = pool.allocate(20_MiB, stream);
  CHECK(pool.counters().bytes_reserved.current == 40_MiB);
}

TEST_CASE("another device gets access to present and future memory of a contiguous pool") {
  sim::Config config;
  config.devices = 2;
  MemoryTest test(config);
  const Stream stream = test.stream();
  const Device other = Device::cuda(1);
  const Stream far = test.runtime->create_stream(other);
  MemoryPool pool = test.memory.create_pool(kContiguous);
  const Allocation before = pool.allocate(1_MiB, stream);
  test.runtime->enable_peer_access(other, Device::cuda(0));
  const Allocation after = pool.allocate(30_MiB, stream);
  for (const Allocation* const block : {&before, &after}) {
    // A kernel of the other device, which faults where it has no access.
    CHECK(test.simulator.launch(
        far.ref().native(), 0,
        {{reinterpret_cast<CUdeviceptr>(block->data()), block->bytes(), true}}));
    far.ref().sync();
  }
}

}  // namespace contiguous_pool_test
