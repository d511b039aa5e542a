// SPDX-License-Identifier: Apache-2.0
// campaign_cuda_mr: berth's memory through a reference of cuda::mr, as libraries hold one. What a
// pair costs beside the driver's own pool, and whether blocks that pass between two busy streams
// keep their content.
#include <cstdio>

#ifndef BERTH_HAS_CUDA_MR
int main() {
  std::fputs("skipped: built without the headers of CCCL\n", stderr);
  return 77;
}
#else
#include <cuda.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/cuda_memory_resource.hpp"

#include "probes/kernels.hpp"
#include "probes/machine.hpp"
#include "probes/rows.hpp"

namespace {

using namespace berth;
using namespace berth::campaign;

constexpr std::size_t kPairs = 2000;
constexpr double kShare = 1.0 / 8;
constexpr std::size_t kAlignment = 256;
constexpr std::size_t kBytesMax = 64_MiB;
constexpr std::size_t kHandedOver = 64;
constexpr std::size_t kHandedOverByHost =
    8;  ///< without kernels the host fills and checks, which is slow
constexpr std::chrono::microseconds kKernel{50};

class Library {
 public:
  explicit Library(DeviceMemoryResource& resource) : resource_(resource) {}
#if CCCL_VERSION >= 3'001'000
  void* allocate(CUstream stream, std::size_t bytes) {
    return resource_.allocate(cuda::stream_ref(stream), bytes, kAlignment);
  }
  void deallocate(CUstream stream, void* data, std::size_t bytes) {
    resource_.deallocate(cuda::stream_ref(stream), data, bytes, kAlignment);
  }

 private:
  cuda::mr::resource_ref<cuda::mr::device_accessible> resource_;
#else
  void* allocate(CUstream stream, std::size_t bytes) {
    return resource_.allocate_async(bytes, kAlignment, cuda::stream_ref(stream));
  }
  void deallocate(CUstream stream, void* data, std::size_t bytes) {
    resource_.deallocate_async(data, bytes, kAlignment, cuda::stream_ref(stream));
  }

 private:
  cuda::mr::async_resource_ref<cuda::mr::device_accessible> resource_;
#endif
};

void measure_pairs(const Machine& machine, Library& library, CUstream stream) {
  const Time all;
  auto* const allocate =
      machine.find<std::remove_pointer_t<decltype(&cuMemAllocAsync)>>("cuMemAllocAsync", 11020);
  auto* const deallocate =
      machine.find<std::remove_pointer_t<decltype(&cuMemFreeAsync)>>("cuMemFreeAsync", 11020);
  for (const std::size_t bytes : {4_KiB, 1_MiB, 64_MiB}) {
    const std::string size = format_bytes(bytes);
    add_row("cuda_mr_pair", size + ", berth", spread(durations_of(kPairs, all.share(kShare), [&] {
              library.deallocate(stream, library.allocate(stream, bytes), bytes);
            })));
    if (allocate == nullptr || deallocate == nullptr) continue;
    add_row("cuda_mr_pair", size + ", cuMemAllocAsync",
            spread(durations_of(kPairs, all.share(kShare), [&] {
              CUdeviceptr data = 0;
              if (allocate(&data, bytes, stream) == CUDA_SUCCESS) deallocate(data, stream);
            })));
  }
}

/// Each block is written behind a kernel on one stream and freed there, and serves the other stream
/// at once.
void measure_content(Library& library, const Kernels& kernels,
                     const std::array<CUstream, 2>& streams) {
  std::uint64_t wrong = 0;
  std::uint64_t reused = 0;
  const std::size_t rounds = kernels.are_real() ? kHandedOver : kHandedOverByHost;
  for (std::size_t round = 0; round < rounds; ++round) {
    const CUstream from = streams[round % 2];
    const CUstream to = streams[(round + 1) % 2];
    const std::size_t bytes = 34_MiB + round * 8_KiB;
    void* const earlier = library.allocate(from, bytes);
    kernels.spin(from, kKernel);
    kernels.fill(from, reinterpret_cast<CUdeviceptr>(earlier), bytes, round);
    library.deallocate(from, earlier, bytes);
    void* const later = library.allocate(to, bytes);
    reused += later == earlier ? 1 : 0;
    const auto data = reinterpret_cast<CUdeviceptr>(later);
    kernels.fill(to, data, bytes, round + 1);
    kernels.spin(to, kKernel);
    wrong += kernels.mismatches(to, data, bytes, round + 1);
    library.deallocate(from, later, bytes);
  }
  add_row("cuda_mr_content", "two busy streams",
          {{"blocks", 2 * rounds}, {"reused_at_once", reused}, {"wrong_words", wrong}});
  if (wrong > 0) throw std::runtime_error(fmt::format("{} words are wrong", wrong));
}

void measure(const Machine& machine) {
  const Kernels kernels(machine);
  // So little that a block has to serve the other stream while its own is busy.
  RuntimeOptions options;
  options.device_allocator.limits.bytes_reserved_max = kBytesMax;
  Runtime runtime(std::move(options));
  DeviceMemoryResource resource(runtime, Device::cuda(0));
  Library library(resource);
  const Stream first = runtime.create_stream(Device::cuda(0));
  const Stream second = runtime.create_stream(Device::cuda(0));
  measure_content(library, kernels, {first.ref().native(), second.ref().native()});
  measure_pairs(machine, library, first.ref().native());
}

}  // namespace

int main() {
  return run_on_machine(measure);
}
#endif
