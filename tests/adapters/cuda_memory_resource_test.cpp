// SPDX-License-Identifier: Apache-2.0
// berth's memory through cuda::mr, as libraries that take a memory resource call it.
#include "berth/cuda_memory_resource.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"
#include "support/captured_graph.hpp"
#include "support/death.hpp"
#include "support/errors.hpp"
#include "support/foreign_stream.hpp"
#include "support/meanwhile.hpp"

namespace berth::test {
namespace {

/// What a library holds: a reference to some resource, under the names of its version of CCCL.
class Library {
 public:
  explicit Library(DeviceMemoryResource& resource) : resource_(resource) {}

#if CCCL_VERSION >= 3'001'000
  void* allocate(StreamRef stream, std::size_t bytes, std::size_t alignment = 256) {
    return resource_.allocate(cuda::stream_ref(stream.native()), bytes, alignment);
  }
  void deallocate(StreamRef stream, void* data, std::size_t bytes) {
    resource_.deallocate(cuda::stream_ref(stream.native()), data, bytes, 256);
  }
  void* allocate_sync(std::size_t bytes, std::size_t alignment = 256) {
    return resource_.allocate_sync(bytes, alignment);
  }
  void deallocate_sync(void* data, std::size_t bytes) {
    resource_.deallocate_sync(data, bytes, 256);
  }

 private:
  cuda::mr::resource_ref<cuda::mr::device_accessible> resource_;
#else
  void* allocate(StreamRef stream, std::size_t bytes, std::size_t alignment = 256) {
    return resource_.allocate_async(bytes, alignment, cuda::stream_ref(stream.native()));
  }
  void deallocate(StreamRef stream, void* data, std::size_t bytes) {
    resource_.deallocate_async(data, bytes, 256, cuda::stream_ref(stream.native()));
  }
  void* allocate_sync(std::size_t bytes, std::size_t alignment = 256) {
    return resource_.allocate(bytes, alignment);
  }
  void deallocate_sync(void* data, std::size_t bytes) {
    resource_.deallocate(data, bytes, 256);
  }

 private:
  cuda::mr::async_resource_ref<cuda::mr::device_accessible> resource_;
#endif
};

/// A device whose work is pending until something waits for it, with room for one large block.
struct ResourceTest : MemoryTest {
  ResourceTest() : MemoryTest(small_device(64_MiB, sim::Progress::manual)) {}
  ~ResourceTest() {
    for (const StreamRef stream : foreign) {
      memory.retire_stream(stream);
      destroy_disowned(stream);
    }
  }
  StreamRef stream() { return foreign.emplace_back(disown(MemoryTest::stream())); }

  std::vector<StreamRef> foreign;
  DeviceMemoryResource resource{*runtime, Device::cuda(0)};
  Library library{resource};
};

TEST_CASE_FIXTURE(ResourceTest, "a block serves its stream again while work is pending") {
  const StreamRef own = stream();
  void* const block = library.allocate(own, 40_MiB);
  log.submit(own, "work");
  library.deallocate(own, block, 40_MiB);
  CHECK(library.allocate(own, 40_MiB) == block);
  CHECK_FALSE(log.is_done("work"));
  library.deallocate(own, block, 40_MiB);
}

TEST_CASE_FIXTURE(ResourceTest,
                  "a block that another stream frees is kept for that stream's work") {
  const StreamRef own = stream();
  const StreamRef other = stream();
  void* const block = library.allocate(own, 24_MiB);
  log.submit(other, "use");
  library.deallocate(other, block, 24_MiB);
  log.submit(other, "later");
  void* const second = library.allocate(own, 24_MiB);
  CHECK(second != block);
  run_next(other);  // "use", and then the mark behind it
  run_next(other);
  CHECK_FALSE(log.is_done("later"));
  CHECK(library.allocate(own, 24_MiB) == block);
  library.deallocate(own, block, 24_MiB);
  library.deallocate(own, second, 24_MiB);
}

TEST_CASE_FIXTURE(ResourceTest, "memory of a synchronous allocation has no pending work") {
  const StreamRef own = stream();
  void* const block = library.allocate(own, 40_MiB);
  log.submit(own, "work");
  library.deallocate(own, block, 40_MiB);
  void* const ready = library.allocate_sync(40_MiB);
  REQUIRE(ready != nullptr);
  CHECK(log.is_done("work"));
  // Its user waited: it serves every stream at once.
  library.deallocate_sync(ready, 40_MiB);
  CHECK(library.allocate_sync(40_MiB) == ready);
  library.deallocate_sync(ready, 40_MiB);
}

TEST_CASE_FIXTURE(ResourceTest, "a refused request changes nothing, and the next call succeeds") {
  const StreamRef own = stream();
  CHECK_THROWS_AS(library.allocate(own, 1_GiB), OutOfMemory);
  CHECK_THROWS_AS(library.allocate_sync(1_GiB), OutOfMemory);
  for (const std::size_t alignment : {0, 3, 96, 1024}) {
    const std::string message =
        message_of<InvalidArgument>([&] { return library.allocate(own, 8, alignment); });
    CHECK(contains(message, std::to_string(alignment) + " B"));
    CHECK(contains(message, "512"));
    CHECK_THROWS_AS(library.allocate_sync(8, alignment), InvalidArgument);
  }
  CHECK(counters().bytes_active.current == 0);
  for (const std::size_t alignment : {1, 2, 256, 512}) {
    void* const block = library.allocate(own, 100, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % kBlockAlignment == 0);
    library.deallocate(own, block, 100);
  }
}

TEST_CASE("freeing a pointer that is no live block terminates the process") {
  for (const bool is_block : {true, false}) {
    CHECK(stops_the_process([is_block] {
            ResourceTest test;
            void* const block = test.library.allocate_sync(1_MiB);
            int nobody = 0;
            test.library.deallocate_sync(is_block ? block : &nobody, 1_MiB);
          }) != is_block);
    CHECK(stops_the_process([is_block] {
            ResourceTest test;
            const StreamRef own = test.stream();
            void* const block = test.library.allocate(own, 1_MiB);
            int nobody = 0;
            test.library.deallocate(own, is_block ? block : &nobody, 1_MiB);
          }) != is_block);
  }
}

TEST_CASE("a free waits for the stream if no event can be recorded") {
  sim::Config config = small_device(64_MiB, sim::Progress::manual);
  config.faults = sim::FaultPlan::parse("cuEventRecord=unknown");
  MemoryTest test(config);
  DeviceMemoryResource resource(*test.runtime, Device::cuda(0));
  Library library(resource);
  const Stream own = test.stream();
  const Stream user = test.stream();
  for (int round = 0; round < 3; ++round) {
    void* const block = library.allocate(own, 40_MiB);
    REQUIRE(block != nullptr);
    const std::string name = "use " + std::to_string(round);
    test.log.submit(user, name);
    library.deallocate(user, block, 40_MiB);
    CHECK(test.log.is_done(name));
  }
}

TEST_CASE("a free reuses events of completed frees, or waits if none has completed") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual}) {
    RuntimeOptions options;
    options.event_pool.events_max = 4;
    Simulation test(small_device(64_MiB, progress), options);
    DeviceMemoryResource resource(*test.runtime, Device::cuda(0));
    Library library(resource);
    const Stream own = test.runtime->create_stream(Device::cuda(0));
    const Stream user = test.runtime->create_stream(Device::cuda(0));
    std::vector<void*> blocks;
    for (int count = 0; count < 20; ++count) blocks.push_back(library.allocate(own, 512));
    for (void* const block : blocks) {
      test.log.submit(user, "use");
      library.deallocate(user, block, 512);
    }
    user.ref().sync();
    test.runtime->memory(Device::cuda(0)).trim();
    CHECK(test.runtime->memory(Device::cuda(0)).counters().bytes_active.current == 0);
  }
}

TEST_CASE("frees on a lost device never terminate the process") {
  for (const char* const fault : {"*@40=lost:0", "*@60=lost:0", "*@80=lost:0"}) {
    sim::Config config = small_device(64_MiB, sim::Progress::manual);
    config.faults = sim::FaultPlan::parse(fault);
    config.checks = false;
    MemoryTest test(config);
    test.errors_expected = true;
    std::vector<void*> blocks;
    try {
      DeviceMemoryResource resource(*test.runtime, Device::cuda(0));
      Library library(resource);
      const Stream own = test.stream();
      const Stream user = test.stream();
      const struct FreeAll {
        ~FreeAll() {
          for (void* const block : blocks) library.deallocate(user, block, 1_MiB);
        }
        Library& library;
        const Stream& user;
        std::vector<void*>& blocks;
      } at_end{library, user, blocks};
      for (int count = 0; count < 40; ++count) {
        blocks.push_back(library.allocate(own, 1_MiB));
      }
    } catch (const Error&) {
    }
  }
}

TEST_CASE_FIXTURE(ResourceTest, "the per-thread default stream can free but not allocate") {
  const StreamRef own = stream();
  const StreamRef per_thread = runtime->per_thread_default_stream(Device::cuda(0));
  CHECK_THROWS_AS(library.allocate(per_thread, 1_MiB), InvalidArgument);
  library.deallocate(per_thread, nullptr, 0);
  void* const block = library.allocate(own, 40_MiB);
  log.submit(per_thread, "use");
  library.deallocate(per_thread, block, 40_MiB);
  CHECK(log.is_done("use"));
  CHECK(library.allocate(own, 40_MiB) == block);
  library.deallocate(own, block, 40_MiB);
}

TEST_CASE("a synchronous allocation does not wait behind another thread that waits") {
  MemoryTest test(small_device(64_MiB));
  DeviceMemoryResource resource(*test.runtime, Device::cuda(0));
  Library library(resource);
  const Stream stuck = test.stream();
  const Allocation word = test.runtime->pinned_memory().allocate(64);
  auto* const gate = static_cast<std::uint32_t*>(word.data());
  *gate = 0;
  library.deallocate_sync(library.allocate_sync(1000), 1000);  // cached, and idle
  {
    const ContextScope scope(stuck.ref().context());
    const Allocation block = test.memory.allocate(40_MiB, stuck);
    REQUIRE(sim::berth_sim_cuStreamWaitValue32(stuck.ref().native(),
                                               reinterpret_cast<CUdeviceptr>(gate), 1,
                                               CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
  }
  Meanwhile other([&] { library.deallocate_sync(library.allocate_sync(50_MiB), 50_MiB); });
  other.start();
  CHECK_FALSE(other.was_done());
  void* const ready = library.allocate_sync(1000);
  CHECK(ready != nullptr);
  library.deallocate_sync(ready, 1000);
  std::atomic_ref(*gate).store(1);
  other.join();
}

TEST_CASE_FIXTURE(ResourceTest,
                  "a synchronous allocation during a capture leaves the capture valid") {
  const StreamRef captured = stream();
  begin_capture(captured);
  void* const ready = library.allocate_sync(1_MiB);
  library.deallocate_sync(ready, 1_MiB);
  CHECK(CapturedGraph(captured).nodes() == 0);
}

TEST_CASE_FIXTURE(ResourceTest, "a free in a forked child does nothing") {
  const StreamRef own = stream();
  const StreamRef user = stream();
  void* const block = library.allocate(own, 1_MiB);
  CHECK_FALSE(stops_the_process([&] {
    library.deallocate(own, block, 1_MiB);
    library.deallocate(user, block, 1_MiB);
    library.deallocate_sync(block, 1_MiB);
  }));
  library.deallocate(own, block, 1_MiB);
}

TEST_CASE_FIXTURE(ResourceTest,
                  "a request of 0 bytes returns null, and freeing null does nothing") {
  CHECK(library.allocate(stream(), 0) == nullptr);
  CHECK(library.allocate_sync(0) == nullptr);
  library.deallocate(stream(), nullptr, 0);
  library.deallocate_sync(nullptr, 0);
}

TEST_CASE_FIXTURE(ResourceTest,
                  "copies of a resource are equal and free each other's allocations") {
  const StreamRef own = stream();
  std::optional<DeviceMemoryResource> copy = resource;
  CHECK(*copy == resource);
  CHECK_FALSE(DeviceMemoryResource(*runtime, Device::cuda(0)) == resource);
  CHECK(copy->device() == Device::cuda(0));
  void* const block = Library(*copy).allocate(own, 1_MiB);
  copy.reset();
  library.deallocate(own, block, 1_MiB);
  CHECK(counters().bytes_active.current == 0);
}

TEST_CASE("threads allocate what other threads free") {
  MemoryTest test(small_device(256_MiB));
  DeviceMemoryResource resource(*test.runtime, Device::cuda(0));
  const Stream streams[] = {test.stream(), test.stream()};
  constexpr int kBlocks = 2000;
  std::atomic<void*> handed_over[2] = {};
  const auto run = [&](std::size_t self) {
    Library library(resource);
    const StreamRef stream = streams[self];
    for (int count = 0; count < kBlocks; ++count) {
      const std::size_t bytes = 512 + static_cast<std::size_t>(count) % 7 * 300'000;
      void* const block =
          count % 5 == 0 ? library.allocate_sync(bytes) : library.allocate(stream, bytes);
      if (void* const other = handed_over[1 - self].exchange(nullptr))
        library.deallocate(stream, other, bytes);
      if (void* const own = handed_over[self].exchange(block))
        library.deallocate(stream, own, bytes);
    }
  };
  std::thread first(run, 0);
  std::thread second(run, 1);
  first.join();
  second.join();
  for (const auto& left : handed_over) Library(resource).deallocate_sync(left.load(), 0);
  test.memory.trim();  // uses that are over
  CHECK(test.counters().bytes_active.current == 0);
  test.memory.validate();
}

}  // namespace
}  // namespace berth::test
