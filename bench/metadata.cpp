// SPDX-License-Identifier: Apache-2.0
// Measures the host memory for the records of an allocator. Bytes for each of a million live blocks
// of the minimum size; for peers, the bytes that they allocated from the program's heap.
#include <cstddef>
#include <malloc.h>
#include <memory>
#include <vector>

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"

namespace berth::bench {
namespace {

constexpr std::size_t kBlocks = 1'000'000;
constexpr std::size_t kBytes = 512;

std::size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

template <class Allocator>
std::size_t metadata_bytes(const Allocator& allocator, std::size_t heap_bytes_before) {
  if constexpr (std::is_same_v<Allocator, BerthAllocator>) {
    return allocator.counters().bytes_metadata.current;
  } else {
    return heap_bytes() - heap_bytes_before;
  }
}

template <class Allocator>
void measure(benchmark::State& state, Session& session) {
  std::vector<void*> blocks(kBlocks);
  for (auto _ : state) {
    const std::size_t before = heap_bytes();
    Allocator allocator(session);
    for (void*& block : blocks) block = allocator.allocate(kBytes, session.stream());
    state.counters["bytes"] =
        static_cast<double>(metadata_bytes(allocator, before)) / static_cast<double>(kBlocks);
    for (void* block : blocks) allocator.deallocate(block, kBytes, session.stream());
  }
}

}  // namespace

void add_benchmarks(Session& session) {
  for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
    // Records of the simulated driver for each block would be counted as the allocator's.
    constexpr bool is_alone = std::is_same_v<Allocator, BerthAllocator> || !Allocator::kCallsDriver;
    if constexpr (is_alone) {
      add(session, "metadata_bytes_per_block", Allocator::kName, "",
          [&session](benchmark::State& state) { measure<Allocator>(state, session); })
          ->Iterations(1);
    }
  });
}

}  // namespace berth::bench
