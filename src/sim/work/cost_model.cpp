// SPDX-License-Identifier: Apache-2.0
#include "sim/work/cost_model.hpp"

#include <cmath>

namespace berth::sim {
namespace {

struct CallCost {
  Function function;
  std::uint64_t ns;
};

// Other calls cost kOtherCallNs: they look something up, or change a field.
constexpr std::uint64_t kOtherCallNs = 100;
constexpr CallCost kCallCosts[] = {
    // harrism/cuda_event_benchmark, issue 7: DGX H100, without timing.
    {Function::k_cuEventCreate, 144},
    // The same benchmark's README: DGX-1 V100, CUDA 10.2, without timing.
    {Function::k_cuEventDestroy, 119},
    {Function::k_cuEventRecord, 244},
    {Function::k_cuEventQuery, 1'016},
    {Function::k_cuStreamWaitEvent, 254},
    {Function::k_cuStreamQuery, 1'016},  // assumed to equal that of an event
    // magnate3/linux-riscv-dev, bench_vmm: A100, 2 MiB pages.
    {Function::k_cuMemAddressReserve, 19'000},
    {Function::k_cuMemCreate, 193'000},
    {Function::k_cuMemMap, 1'450},
    {Function::k_cuMemSetAccess, 36'000},
    {Function::k_cuMemUnmap, 25'600},
    {Function::k_cuMemRelease, 25'600},  // assumed to equal that of an unmapping
    // eunomia-bpf/bpftime, issue 506: the means of one trace.
    {Function::k_cuMemAlloc, 168'500},
    {Function::k_cuMemAllocPitch, 168'500},
    {Function::k_cuMemAllocManaged, 168'500},
    {Function::k_cuMemFree, 183'600},
    // FlexKV, issue 193: H20, each copy.
    {Function::k_cuMemcpyAsync, 2'300},
    {Function::k_cuMemcpyPeerAsync, 2'300},
    {Function::k_cuMemcpy, 2'300},
    {Function::k_cuMemcpyPeer, 2'300},
    {Function::k_cuMemcpyHtoD, 2'300},
    {Function::k_cuMemcpyDtoH, 2'300},
    {Function::k_cuMemcpyDtoD, 2'300},
    {Function::k_cuMemcpyHtoDAsync, 2'300},
    {Function::k_cuMemcpyDtoHAsync, 2'300},
    {Function::k_cuMemcpyDtoDAsync, 2'300},
    {Function::k_cuMemcpy2D, 2'300},
    {Function::k_cuMemcpy2DUnaligned, 2'300},
    {Function::k_cuMemcpy2DAsync, 2'300},
    {Function::k_cuMemcpyWithAttributesAsync, 2'300},
    {Function::k_cuMemcpy3DWithAttributesAsync, 2'300},
    {Function::k_cuMemsetD8, 2'300},
    {Function::k_cuMemsetD16, 2'300},
    {Function::k_cuMemsetD32, 2'300},
    {Function::k_cuMemsetD2D8, 2'300},
    {Function::k_cuMemsetD2D16, 2'300},
    {Function::k_cuMemsetD2D32, 2'300},
    {Function::k_cuMemsetD8Async, 2'300},
    {Function::k_cuMemsetD16Async, 2'300},
    {Function::k_cuMemsetD32Async, 2'300},
    {Function::k_cuMemsetD2D8Async, 2'300},
    {Function::k_cuMemsetD2D16Async, 2'300},
    {Function::k_cuMemsetD2D32Async, 2'300},
    {Function::k_cuLaunchHostFunc, 2'300},
    {Function::k_cuLaunchKernel, 2'300},
    {Function::k_cuLaunchKernelEx, 2'300},
    {Function::k_cuStreamAddCallback, 2'300},
    // meta-pytorch/torchcomms, pull request 2195: H100, 16 copies.
    {Function::k_cuMemcpyBatchAsync, 2'300},
    {Function::k_cuMemcpy3DBatchAsync, 2'300},
    // Creation and destruction in the order of microseconds; no published figure.
    {Function::k_cuStreamCreate, 5'000},
    {Function::k_cuStreamCreateWithPriority, 5'000},
    {Function::k_cuStreamDestroy, 5'000},
    {Function::k_cuMemHostAlloc, 10'000},
    {Function::k_cuMemAllocHost, 10'000},
    {Function::k_cuMemFreeHost, 10'000},
    {Function::k_cuMemHostRegister, 10'000},
    {Function::k_cuMemHostUnregister, 10'000},
};

// deepspeedai/DeepSpeed, issue 8283: H200, pinned, 256 MiB.
constexpr double kHostToDeviceBytesPerNs = 55.41;
constexpr double kDeviceToHostBytesPerNs = 54.94;
// Assumed: faults take as long as the bytes that they move.
constexpr std::uint64_t kMigrationFactor = 2;
// NVIDIA H100 data sheet: NVLink 900 GB/s in both directions together, memory 3.35 TB/s. A copy
// inside the device reads and writes.
constexpr double kPeerBytesPerNs = 450;
constexpr double kMemoryBytesPerNs = 3350;
// vllm-project/vllm, issue 51081: H200 NVL, registration of warm pages, and pageable copies.
constexpr double kRegistrationBytesPerNs = 10;
constexpr double kPageableBytesPerNs = 10;
// ikawrakow/ik_llama.cpp, issue 1517: cudaMallocHost.
constexpr double kPinnedAllocationBytesPerNs = 4.5;
// One core's memcpy between buffers larger than its caches.
constexpr double kHostCopyBytesPerNs = 14.8;
// From the engine's start to the first byte. NVIDIA/gdrcopy's README: 6 to 7 us for a small
// cudaMemcpy as a whole, of which the call is the rest.
constexpr std::uint64_t kEngineLatencyNs = 2'000;
// The cost of each further copy of a batch, in addition to its bytes. vllm-project/vllm, pull
// request 42212: H100, 10,000 copies of 28 KiB in 1.04 us each, of 64 KiB in 1.69.
constexpr std::uint64_t kFurtherCopyNs = 500;
// The number of kernels that run concurrently: rapidsai/rmm, issue 659.
constexpr int kKernelsAtATime = 128;

std::uint64_t at_rate(std::uint64_t bytes, double bytes_per_ns) {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_ns));
}

/// The duration without latency.
std::uint64_t moving_ns(Engine engine, std::uint64_t bytes) {
  switch (engine) {
    case Engine::host_to_device:
      return at_rate(bytes, kHostToDeviceBytesPerNs);
    case Engine::device_to_host:
      return at_rate(bytes, kDeviceToHostBytesPerNs);
    case Engine::device_to_device:
      return at_rate(bytes, kPeerBytesPerNs);
    case Engine::processors:
      return at_rate(2 * bytes, kMemoryBytesPerNs);
    case Engine::none:
    case Engine::count:
      break;
  }
  return 0;
}

}  // namespace

int concurrency(Engine engine) {
  return engine == Engine::processors ? kKernelsAtATime : 1;
}

std::uint64_t call_ns(Function function) {
  for (const CallCost& cost : kCallCosts)
    if (cost.function == function) return cost.ns;
  return kOtherCallNs;
}

std::uint64_t transfer_ns(Engine engine, std::uint64_t bytes) {
  return kEngineLatencyNs + moving_ns(engine, bytes);
}
std::uint64_t further_transfer_ns(Engine engine, std::uint64_t bytes) {
  return kFurtherCopyNs + moving_ns(engine, bytes);
}
std::uint64_t pageable_transfer_ns(std::uint64_t bytes) {
  return kEngineLatencyNs + at_rate(bytes, kPageableBytesPerNs);
}
Engine route_of_pages(int from, int to) {
  if (to < 0) return Engine::device_to_host;
  return from < 0 ? Engine::host_to_device : Engine::device_to_device;
}
std::uint64_t route_ns(Engine route, std::uint64_t bytes) {
  return moving_ns(route, bytes);
}
std::uint64_t page_migration_ns(Engine route, std::uint64_t bytes) {
  return moving_ns(route, kMigrationFactor * bytes);
}
std::uint64_t host_copy_ns(std::uint64_t bytes) {
  return at_rate(bytes, kHostCopyBytesPerNs);
}
std::uint64_t pinned_allocation_ns(std::uint64_t bytes) {
  return at_rate(bytes, kPinnedAllocationBytesPerNs);
}
std::uint64_t registration_ns(std::uint64_t bytes) {
  return at_rate(bytes, kRegistrationBytesPerNs);
}

}  // namespace berth::sim
