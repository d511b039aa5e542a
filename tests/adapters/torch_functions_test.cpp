// SPDX-License-Identifier: Apache-2.0
// The functions of libberth_torch.so for the allocator that is compiled for an installed PyTorch.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/runtime.hpp"

#include "full/memory_functions.hpp"
#include "torch/berth_torch.h"

namespace berth {
namespace {

using torch::DeviceCounters;
using torch::MemoryFunctions;
using torch::PoolId;

MemoryFunctions& functions() {
  return *berth_torch_functions(torch::kMemoryFunctionsVersion);
}

TEST_CASE("an allocator that was compiled for another version gets no functions") {
  CHECK(berth_torch_functions(torch::kMemoryFunctionsVersion + 1) == nullptr);
  CHECK(berth_torch_functions(torch::kMemoryFunctionsVersion) != nullptr);
}

TEST_CASE("a block is freed on its own device, which is found by its address") {
  void* const first = functions().allocate(1_MiB, 0, nullptr);
  void* const second = functions().allocate(1_MiB, 1, nullptr);
  functions().free(second);
  functions().free(first);
  functions().free(nullptr);
  CHECK(functions().allocate(1_MiB, 1, nullptr) == second);
  CHECK(functions().allocate(1_MiB, 0, nullptr) == first);
  functions().free(first);
  functions().free(second);
  int no_block = 0;
  CHECK_THROWS_AS(functions().free(&no_block), InvalidArgument);
  CHECK_THROWS_AS(functions().free(first), InvalidArgument);
}

TEST_CASE("only a lack of memory throws std::bad_alloc") {
  CHECK_THROWS_AS(static_cast<void>(functions().allocate(2_GiB, 0, nullptr)), std::bad_alloc);
  CHECK_THROWS_AS(static_cast<void>(functions().allocate(1_MiB, 9, nullptr)), InvalidArgument);
  CHECK(functions().allocate(0, 0, nullptr) == nullptr);
}

TEST_CASE("devices that are used can access each other's memory") {
  struct Location {
    int type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
    int device = 0;
  };
  constexpr unsigned long long kReadWrite = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
  Runtime& runtime = runtime_of(berth_torch_runtime());
  using GetAccess = int (*)(unsigned long long*, const Location*, std::uintptr_t);
  const auto get_access =
      reinterpret_cast<GetAccess>(runtime.driver_function("cuMemGetAccess", 10020));
  REQUIRE(static_cast<bool>(get_access));
  for (const int owner : {0, 1}) {
    void* const block = functions().allocate(1_MiB, owner, nullptr);
    functions().free(functions().allocate(1_MiB, 1 - owner, nullptr));
    for (const int user : {0, 1}) {
      CAPTURE(owner);
      CAPTURE(user);
      const Location location{.device = user};
      unsigned long long access = 0;
      CHECK(get_access(&access, &location, reinterpret_cast<std::uintptr_t>(block)) == 0);
      CHECK(access == kReadWrite);
    }
    functions().free(block);
  }
}

TEST_CASE("counters cover the device and its pools") {
  functions().free(functions().allocate(1_KiB, 1, nullptr));
  functions().trim();
  const PoolId id{0, 5};
  const DeviceCounters before = functions().counters(1);
  functions().retain_pool(1, id);
  CHECK(functions().pool_uses(1, id) == 1);
  CHECK(functions().pool_uses(0, id) == 0);
  functions().begin_pool(1, id, [](CUstream_st*) { return true; });
  CHECK(functions().pool_uses(1, id) == 2);
  void* const pooled = functions().allocate(3_MiB - 1, 1, nullptr);
  functions().end_pool(1, id);
  void* const own = functions().allocate(1_MiB, 1, nullptr);
  const DeviceCounters during = functions().counters(1);
  CHECK(during.bytes_allocated.current == before.bytes_allocated.current + 4_MiB);
  CHECK(during.bytes_requested.current == before.bytes_requested.current + 4_MiB - 1);
  CHECK(during.blocks_allocated.current == before.blocks_allocated.current + 2);
  REQUIRE(during.pool_bytes_reserved.size() == 1);
  CHECK(during.pool_bytes_reserved[0].first == id);
  CHECK(during.pool_bytes_reserved[0].second.current >= 3_MiB);

  std::size_t in_pool = 0;
  for (const torch::Segment& segment : functions().segments(1)) {
    std::size_t bytes = 0;
    for (const torch::Block& block : segment.blocks) {
      bytes += block.bytes;
      if (block.data == reinterpret_cast<std::uintptr_t>(pooled) && block.is_allocated)
        in_pool += segment.pool == id ? block.bytes_requested : 0;
    }
    CHECK(bytes == segment.bytes);
  }
  CHECK(in_pool == 3_MiB - 1);

  functions().free(pooled);
  functions().free(own);
  functions().reset_peaks(1);
  const DeviceCounters after = functions().counters(1);
  CHECK(after.bytes_allocated.peak == before.bytes_allocated.current);
  functions().release_pool(1, id);
  functions().release_pool(1, id);
  CHECK(functions().pool_uses(1, id) == 0);
  functions().trim();
  CHECK(functions().counters(1).pool_bytes_reserved.empty());
}

TEST_CASE("a live block of a closed pool is still counted") {
  const PoolId id{0, 6};
  const std::uint64_t before = functions().counters(0).bytes_allocated.current;
  functions().begin_pool(0, id, nullptr);
  void* const pooled = functions().allocate(3_MiB, 0, nullptr);
  functions().end_pool(0, id);
  functions().release_pool(0, id);
  functions().trim();
  CHECK(functions().counters(0).bytes_allocated.current == before + 3_MiB);
  functions().free(pooled);
  CHECK(functions().counters(0).bytes_allocated.current == before);
}

TEST_CASE("counters of a device that does not exist are zero") {
  CHECK(functions().counters(7).bytes_reserved.current == 0);
  CHECK(functions().segments(7).empty());
  CHECK(functions().largest_free_block(7) == 0);
  functions().reset_peaks(7);
}

TEST_CASE("a child made by fork() frees nothing, and ends") {
  void* const first = functions().allocate(1_MiB, 0, nullptr);
  void* const second = functions().allocate(1_MiB, 1, nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    functions().free(first);
    functions().free(second);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  functions().free(first);
  functions().free(second);
}

}  // namespace
}  // namespace berth
