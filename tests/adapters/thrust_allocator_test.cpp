// SPDX-License-Identifier: Apache-2.0
// berth's memory through Thrust's own traits, and vectors in their memory. The algorithms of the
// CUDA system need nvcc; those of the C++ system run here.
#include "berth/thrust_allocator.hpp"

#include <limits>
#include <new>
#include <thrust/detail/allocator/allocator_traits.h>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"
#include "support/death.hpp"

namespace berth::test {
namespace {

using Traits = thrust::detail::allocator_traits<ThrustAllocator<float>>;

struct ThrustTest : MemoryTest {
  ThrustTest() : MemoryTest(small_device(64_MiB, sim::Progress::manual)) {}
  [[nodiscard]] std::uint64_t live() const { return counters().blocks_allocated.current; }

  const Stream own = stream();
  ThrustAllocator<float> allocator{*runtime, own};
};

TEST_CASE_FIXTURE(ThrustTest, "std::allocator_traits allocates and frees memory") {
  const auto block = Traits::allocate(allocator, 1000);
  CHECK(memory.find(block.get())->bytes == 1000 * sizeof(float));
  Traits::deallocate(allocator, block, 1000);
  CHECK(live() == 0);
  const auto nothing = Traits::allocate(allocator, 0);
  CHECK(nothing.get() == nullptr);
  Traits::deallocate(allocator, nothing, 0);
}

TEST_CASE_FIXTURE(ThrustTest, "a copy for another type frees what the first allocated") {
  using Bytes = Traits::rebind_alloc<char>;
  Bytes bytes(allocator);
  const auto block = allocator.allocate(10);
  bytes.deallocate(thrust::device_ptr<char>(reinterpret_cast<char*>(block.get())), 40);
  CHECK(live() == 0);
  CHECK(allocator == ThrustAllocator<float>(bytes));
  const Stream other = stream();
  CHECK(allocator != ThrustAllocator<float>(*runtime, other));
  CHECK(allocator.stream() == own.ref());
}

TEST_CASE_FIXTURE(ThrustTest, "memory serves its stream again while work is pending") {
  const auto first = allocator.allocate(10'000'000);
  log.submit(own, "sort");
  allocator.deallocate(first, 10'000'000);
  const auto second = allocator.allocate(10'000'000);
  CHECK(second == first);
  CHECK_FALSE(log.is_done("sort"));
  allocator.deallocate(second, 10'000'000);
  own.ref().sync();
}

TEST_CASE_FIXTURE(ThrustTest, "a refused request throws std::bad_alloc and changes nothing") {
  CHECK_THROWS_AS(static_cast<void>(allocator.allocate(100'000'000)), std::bad_alloc);
  const std::size_t most = std::numeric_limits<std::size_t>::max() / 2;
  CHECK_THROWS_AS(static_cast<void>(allocator.allocate(most)), std::bad_alloc);
  CHECK(live() == 0);
}

TEST_CASE(
    "freeing an unknown pointer terminates the process, and a forked child's free does nothing") {
  ThrustTest test;
  const auto block = test.allocator.allocate(10);
  float nobody = 0;
  CHECK(stops_the_process([&] {
    ThrustTest child;
    child.allocator.deallocate(thrust::device_ptr<float>(&nobody), 1);
  }));
  CHECK_FALSE(stops_the_process([&] { test.allocator.deallocate(block, 10); }));
  test.allocator.deallocate(block, 10);
}

}  // namespace
}  // namespace berth::test
