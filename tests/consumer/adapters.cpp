// SPDX-License-Identifier: Apache-2.0
// An outside program that includes the adapters of the installed library, and calls what PyTorch
// calls: each hands out memory, gets it back, and copies through it.
#include <array>
#include <berth/dlpack.hpp>
#include <berth/pinned_memory_resource.hpp>
#include <berth/runtime.hpp>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <memory_resource>
#include <vector>

#ifdef HAS_THRUST
#include <berth/thrust_allocator.hpp>
#endif
#ifdef HAS_CUDA_MR
#include <berth/cuda_memory_resource.hpp>
#endif

namespace {

constexpr std::size_t kBytes = 4096;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "adapters.cpp: %s\n", what);
  std::exit(1);
}

void use_dlpack(berth::Runtime& runtime, berth::StreamRef stream) {
  const std::array<std::int64_t, 2> shape = {16, 64};
  berth::dlpack::ManagedTensor* const tensor = berth::dlpack::export_tensor(
      runtime.memory(stream.device()).allocate(kBytes, stream), shape, {berth::dlpack::kFloat, 32},
      berth::dlpack::HostKind::pageable, &runtime, stream);
  require(tensor->tensor.device.device_type == berth::dlpack::kCuda, "dlpack: the device");
  require(tensor->tensor.data != nullptr && tensor->tensor.ndim == 2, "dlpack: the tensor");
  tensor->deleter(tensor);
}

void use_pmr(berth::Runtime& runtime) {
  berth::PinnedMemoryResource pinned(runtime.pinned_memory());
  std::pmr::vector<float> numbers(kBytes, 0.5f, &pinned);
  require(runtime.pinned_memory().owns(numbers.data()), "pmr: the memory is pinned");
}

void use_thrust(berth::Runtime& runtime, berth::StreamRef stream) {
#ifdef HAS_THRUST
  berth::ThrustAllocator<float> allocator(runtime, stream);
  const auto data = allocator.allocate(kBytes);
  require(runtime.memory(stream.device()).owns(data.get()), "Thrust: the memory");
  allocator.deallocate(data, kBytes);
#else
  static_cast<void>(runtime), static_cast<void>(stream);
#endif
}

void use_cuda_mr(berth::Runtime& runtime, berth::StreamRef stream) {
#ifdef HAS_CUDA_MR
  const berth::DeviceMemoryResource resource(runtime, stream.device());
  require(resource.device() == stream.device(), "cuda::mr: the device");
#else
  static_cast<void>(runtime), static_cast<void>(stream);
#endif
}

template <class Function>
Function* find(void* library, const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(library, name));
  require(function != nullptr, name);
  return function;
}

/// As CUDAPluggableAllocator finds them: by name, in a library that it loads.
void use_torch(const char* file) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, file);
  using Allocate = void*(std::size_t, int, void*);
  auto* const allocate = find<Allocate>(library, "berth_torch_alloc");
  auto* const allocate_or_throw = find<Allocate>(library, "berth_torch_alloc_or_throw");
  auto* const free = find<void(void*, std::size_t, int, void*)>(library, "berth_torch_free");
  for (const char* hook : {"berth_torch_init", "berth_torch_record_stream", "berth_torch_reset",
                           "berth_torch_memory_fraction", "berth_torch_base_alloc",
                           "berth_torch_begin_allocate_to_pool", "berth_torch_end_allocate_to_pool",
                           "berth_torch_release_pool", "berth_torch_runtime"})
    find<void()>(library, hook);
  void* const block = allocate(kBytes, 0, nullptr);
  require(block != nullptr, "torch: no memory");
  free(block, kBytes, 0, nullptr);
  require(allocate_or_throw(kBytes, 0, nullptr) == block, "torch: the block serves again");
  free(block, kBytes, 0, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  require(argc == 2, "usage: adapters LIBBERTH_TORCH");
  berth::Runtime runtime;
  const berth::StreamLease stream = runtime.streams(berth::Device::cuda(0)).acquire();
  use_dlpack(runtime, stream);
  use_pmr(runtime);
  use_thrust(runtime, stream);
  use_cuda_mr(runtime, stream);
  use_torch(argv[1]);
  std::puts("all adapters");
}
