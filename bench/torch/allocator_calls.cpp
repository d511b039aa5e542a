// SPDX-License-Identifier: Apache-2.0
// Times the allocator of a PyTorch process in C++, as PyTorch's operators call it. measure.py
// compiles it for the installed PyTorch, and loads it there.
#include <c10/cuda/CUDACachingAllocator.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <sys/types.h>
#include <vector>

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

/// One allocation, or with 0 bytes one free, of the block in a slot.
struct Operation {
  std::uint64_t bytes;
  std::uint32_t slot;
  std::uint32_t stream;
};

}  // namespace

/// A plug-in that does nothing: no plug-in is faster. Its addresses are of no memory.
extern "C" __attribute__((visibility("default"))) void* empty_alloc(ssize_t bytes, int,
                                                                    cudaStream_t) {
  constexpr std::uintptr_t kAlignment = 512;
  static std::uintptr_t next = std::uintptr_t{1} << 40;
  const std::uintptr_t address = next;
  next += (static_cast<std::uintptr_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}
extern "C" __attribute__((visibility("default"))) void empty_free(void*, ssize_t, int,
                                                                  cudaStream_t) {}

/// Runs the operations, and returns the nanoseconds that they took together. Each slot is empty at
/// the end if the operations leave it so.
extern "C" __attribute__((visibility("default"))) double run_operations(
    const Operation* operations, std::size_t count, std::size_t slots,
    const cudaStream_t* streams) {
  std::vector<void*> blocks(slots);
  const auto start = std::chrono::steady_clock::now();
  for (const Operation* operation = operations; operation != operations + count; ++operation) {
    void*& block = blocks[operation->slot];
    if (operation->bytes != 0)
      block = caching::raw_alloc_with_stream(operation->bytes, streams[operation->stream]);
    else
      caching::raw_delete(block);
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return took.count();
}
