// SPDX-License-Identifier: Apache-2.0
// berth's pinned memory in containers of the standard library.
#include "berth/pinned_memory_resource.hpp"

#include <cstdint>
#include <cstring>
#include <limits>
#include <list>
#include <memory_resource>
#include <new>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/death.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace berth::test {
namespace {

struct PinnedResourceTest : Simulation {
  PinnedResourceTest() : Simulation({}, limited()) {}
  static RuntimeOptions limited() {
    RuntimeOptions options;
    options.pinned_allocator.bytes_reserved_max = 64_MiB;
    return options;
  }
  [[nodiscard]] std::uint64_t live() const { return pinned.counters().blocks_allocated.current; }

  PinnedAllocator& pinned = runtime->pinned_memory();
  PinnedMemoryResource resource{pinned};
};

TEST_CASE_FIXTURE(PinnedResourceTest, "a container's memory is pinned, and freed with it") {
  {
    std::pmr::vector<float> batch(1000, 0.5f, &resource);
    CHECK(pinned.find(batch.data())->bytes == 1000 * sizeof(float));
    batch.resize(100'000, 0.25f);
    CHECK(batch[999] == 0.5f);
    std::pmr::string text(1000, 'x', &resource);
    CHECK(live() == 2);
  }
  CHECK(live() == 0);
}

TEST_CASE_FIXTURE(PinnedResourceTest,
                  "copies from a container are recorded without a call by the program") {
  const StreamLease stream = runtime->streams(Device::cuda(0)).acquire();
  const Allocation target = runtime->memory(Device::cuda(0)).allocate(4_MiB, stream);
  std::pmr::vector<unsigned char> source(4_MiB, 7, &resource);
  runtime->copier().copy_async(target.data(), source.data(), 4_MiB, stream);
  source = std::pmr::vector<unsigned char>(&resource);
  std::pmr::vector<unsigned char> other(4_MiB, 9, &resource);  // not in the place of the source
  std::vector<unsigned char> back(4_MiB);
  runtime->copier().copy(back.data(), target.data(), 4_MiB, stream);
  CHECK(back == std::vector<unsigned char>(4_MiB, 7));
}

TEST_CASE_FIXTURE(PinnedResourceTest, "alignments are powers of two, and others are refused") {
  for (const std::size_t alignment : {1, 8, 64, 256, 512, 1024, 65536, 4 << 20}) {
    void* const before = resource.allocate(100);  // so that the next one is not aligned by chance
    void* const block = resource.allocate(100, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
    resource.deallocate(block, 100, alignment);
    resource.deallocate(before, 100);
  }
  static_assert(kBlockAlignment == 512);
  // GCC warns of a size that it knows.
  volatile const std::size_t most = std::numeric_limits<std::size_t>::max();
  CHECK_THROWS_AS(static_cast<void>(resource.allocate(most - 1000, 4096)), std::bad_alloc);
  for (const std::size_t alignment : {0, 3, 1025}) {
    const std::string message =
        message_of<InvalidArgument>([&] { static_cast<void>(resource.allocate(100, alignment)); });
    CHECK(contains(message, std::to_string(alignment) + " B"));
  }
  CHECK(live() == 0);
}

TEST_CASE_FIXTURE(PinnedResourceTest, "the pools of the standard library work on top") {
  std::pmr::unsynchronized_pool_resource pool(&resource);
  std::pmr::list<std::pmr::string> texts(&pool);
  for (std::size_t length = 0; length < 3000; length += 7) texts.emplace_back(length, 'x');
  for (std::size_t length = 0; const std::pmr::string& text : texts) {
    CHECK(text.size() == length);
    length += 7;
  }
  CHECK(live() > 0);
  texts.clear();
  pool.release();
  CHECK(live() == 0);
}

TEST_CASE_FIXTURE(PinnedResourceTest,
                  "a refused request throws std::bad_alloc and changes nothing") {
  CHECK_THROWS_AS(std::pmr::vector<char>(1_GiB, &resource), std::bad_alloc);
  void* const first = resource.allocate(0);
  void* const second = resource.allocate(0);
  CHECK(first != nullptr);
  CHECK(first != second);
  resource.deallocate(first, 0);
  resource.deallocate(second, 0);
  int no_block = 0;
  CHECK_THROWS_AS(resource.deallocate(&no_block, 4), InvalidArgument);
  CHECK(live() == 0);
}

TEST_CASE_FIXTURE(PinnedResourceTest, "resources of one allocator are equal") {
  PinnedMemoryResource same(pinned, {.kind = PinnedKind::write_combined});
  RuntimeOptions options;
  options.driver = "sim";
  Runtime second(std::move(options));
  PinnedMemoryResource other(second.pinned_memory());
  CHECK(resource == same);
  CHECK(resource != other);
  CHECK(resource != *std::pmr::new_delete_resource());
  void* const block = same.allocate(100);
  CHECK(pinned.find(block)->kind == PinnedKind::write_combined);
  resource.deallocate(block, 100);
}

TEST_CASE_FIXTURE(PinnedResourceTest, "destroying a container in a forked child does nothing") {
  std::pmr::vector<char> kept(1000, 'x', &resource);
  CHECK_FALSE(stops_the_process([&] {
    try {
      static_cast<void>(resource.allocate(100));
      std::abort();
    } catch (const NotSupported&) {
    }
    kept = std::pmr::vector<char>(&resource);
  }));
}

}  // namespace
}  // namespace berth::test
