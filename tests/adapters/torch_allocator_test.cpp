// SPDX-License-Identifier: Apache-2.0
// The functions of libberth_torch.so as PyTorch calls them: by address, with streams that PyTorch
// owns.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/runtime.hpp"

#include "torch/berth_torch.h"

namespace berth {
namespace {

// As CUDAPluggableAllocator keeps them.
const std::function<void*(std::size_t, int, CUstream_st*)> allocate = berth_torch_alloc;
const std::function<void(void*, std::size_t, int, CUstream_st*)> deallocate = berth_torch_free;

TEST_CASE("blocks come from the device that PyTorch names, and are reused") {
  for (const int device : {0, 1}) {
    void* const block = allocate(1_MiB, device, nullptr);
    REQUIRE(block != nullptr);
    void* const beside = allocate(1_MiB, device, nullptr);
    CHECK(beside != block);
    deallocate(block, 1_MiB, device, nullptr);
    CHECK(allocate(1_MiB, device, nullptr) == block);
    deallocate(block, 1_MiB, device, nullptr);
    deallocate(beside, 1_MiB, device, nullptr);
  }
}

TEST_CASE("a request of 0 bytes returns null, and freeing null does nothing") {
  CHECK(allocate(0, 0, nullptr) == nullptr);
  deallocate(nullptr, 0, 0, nullptr);
  berth_torch_record_stream(nullptr, nullptr);
}

TEST_CASE("a failed request returns null, and the next call succeeds") {
  CHECK(allocate(2_GiB, 0, nullptr) == nullptr);
  CHECK(allocate(1_MiB, 2, nullptr) == nullptr);
  CHECK(allocate(1_MiB, -1, nullptr) == nullptr);
  int no_block = 0;
  deallocate(&no_block, 4, 0, nullptr);
  deallocate(&no_block, 4, 7, nullptr);
  berth_torch_record_stream(&no_block, nullptr);
  berth_torch_memory_fraction(2.0, 0);
  berth_torch_memory_fraction(0.5, 9);
  void* const block = allocate(1_MiB, 0, nullptr);
  CHECK(block != nullptr);
  deallocate(block, 1_MiB, 0, nullptr);
}

TEST_CASE("berth_torch_alloc_or_throw() throws if a request fails") {
  CHECK_THROWS_AS(static_cast<void>(berth_torch_alloc_or_throw(2_GiB, 0, nullptr)), std::exception);
  CHECK_THROWS_AS(static_cast<void>(berth_torch_alloc_or_throw(1_MiB, 9, nullptr)), std::exception);
  CHECK(berth_torch_alloc_or_throw(0, 0, nullptr) == nullptr);
  void* const block = berth_torch_alloc_or_throw(1_MiB, 0, nullptr);
  CHECK(block != nullptr);
  deallocate(block, 1_MiB, 0, nullptr);
}

TEST_CASE("the memory fraction limits the reserved bytes") {
  berth_torch_memory_fraction(0.25, 1);
  CHECK(allocate(300_MiB, 1, nullptr) == nullptr);
  void* const block = allocate(200_MiB, 1, nullptr);
  CHECK(block != nullptr);
  deallocate(block, 200_MiB, 1, nullptr);
  berth_torch_memory_fraction(1.0, 1);
}

TEST_CASE("berth_torch_reset() returns all free memory to the driver") {
  void* const block = allocate(600_MiB, 0, nullptr);
  REQUIRE(block != nullptr);
  deallocate(block, 600_MiB, 0, nullptr);
  Runtime other;
  const Device device = Device::cuda(0);
  CHECK_FALSE(other.memory(device).try_allocate(600_MiB, other.default_stream(device)));
  berth_torch_reset();
  CHECK(other.memory(device).try_allocate(600_MiB, other.default_stream(device)));
}

TEST_CASE("a recorded stream of PyTorch delays the reuse of a block, on each device") {
  Runtime framework;
  for (const int index : {0, 1}) {
    CAPTURE(index);
    const Device device = Device::cuda(index);
    const Stream owner = framework.create_stream(device);
    const StreamRef stream = owner;
    const Stream readers = framework.create_stream(device);
    const StreamRef reader = readers;
    // Two blocks, and no more.
    berth_torch_reset();
    berth_torch_memory_fraction(8.0 / 1024, index);
    void* const block = allocate(4_MiB, index, stream.native());
    REQUIRE(block != nullptr);
    // Pending until something waits for it (progress=manual).
    const Allocation host = framework.pinned_memory().allocate(4_MiB);
    framework.copier().copy_async(host.data(), block, 4_MiB, reader);
    berth_torch_record_stream(block, reader.native());
    deallocate(block, 4_MiB, index, stream.native());
    void* const other = allocate(4_MiB, index, stream.native());
    CHECK(other != block);
    reader.sync();
    void* const again = allocate(4_MiB, index, stream.native());
    CHECK(again == block);
    deallocate(again, 4_MiB, index, stream.native());
    deallocate(other, 4_MiB, index, stream.native());
    berth_torch_memory_fraction(1.0, index);
  }
}

TEST_CASE("threads allocate what other threads free") {
  constexpr std::size_t kBlocks = 200;
  std::vector<void*> blocks(4 * kBlocks);
  const auto on_four_threads = [](auto work) {
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < 4; ++thread) threads.emplace_back(work, thread);
    for (std::thread& thread : threads) thread.join();
  };
  on_four_threads([&](std::size_t thread) {
    for (std::size_t count = 0; count < kBlocks; ++count)
      blocks[thread * kBlocks + count] = allocate(1_KiB << count % 8, 0, nullptr);
  });
  for (const void* block : blocks) CHECK(block != nullptr);
  on_four_threads([&](std::size_t thread) {
    const std::size_t from = (thread + 1) % 4 * kBlocks;
    for (std::size_t count = 0; count < kBlocks; ++count)
      deallocate(blocks[from + count], 0, 0, nullptr);
  });
}

}  // namespace
}  // namespace berth
