// SPDX-License-Identifier: Apache-2.0
// A simulator below berth's CUDA runtime, which this program links as any program links
// libcudart. The same cases are compiled for both majors; BERTH_CUDART_MAJOR says which.
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/sim.hpp"

#include "cudart/newer_declarations.hpp"
#include "cudart/older_abi.hpp"
#include "sim/functions.hpp"

/// For calls that a test needs, as opposed to those it is about.
#define OK(call) REQUIRE((call) == cudaSuccess)

namespace berth::test {

#if BERTH_CUDART_MAJOR == 12
extern "C" {
cudart::older_abi::GetDeviceProperties12 get_properties __asm__("cudaGetDeviceProperties_v2");
cudart::older_abi::GetDeviceProperties11 get_properties_11 __asm__("cudaGetDeviceProperties");
cudart::older_abi::PointerGetAttributes12 get_attributes __asm__("cudaPointerGetAttributes");
cudart::older_abi::Memcpy3DBatchAsync12 copy_volumes __asm__("cudaMemcpy3DBatchAsync");
decltype(cudaGraphAddNode) add_node __asm__("cudaGraphAddNode_v2");
}
using DeviceProperties = cudart::older_abi::DeviceProperties;
using PointerAttributes = cudart::older_abi::PointerAttributes;
inline constexpr int kRuntimeVersion = 12090;
#else
inline cudaError_t get_properties(cudaDeviceProp* properties, int device) {
  return cudaGetDeviceProperties(properties, device);
}
inline cudaError_t get_attributes(cudaPointerAttributes* attributes, const void* pointer) {
  return cudaPointerGetAttributes(attributes, pointer);
}
using DeviceProperties = cudaDeviceProp;
using PointerAttributes = cudaPointerAttributes;
constexpr auto add_node = cudaGraphAddNode;
inline constexpr int kRuntimeVersion = CUDART_VERSION;
#endif

/// The runtime looks up the functions of the driver once, in the first of these.
struct RuntimeFixture {
  explicit RuntimeFixture(const std::string& config) : sim("driver_version=13020," + config) {
    REQUIRE(sim::berth_sim_cuInit(0) == CUDA_SUCCESS);
  }
  /// A device that is reset has forgotten this simulator.
  ~RuntimeFixture() {
    int count = 0;
    cudaGetDeviceCount(&count);
    for (int device = count; device-- > 0;) {
      cudaSetDevice(device);
      cudaDeviceReset();
    }
    cudaGetLastError();
  }
  RuntimeFixture(const RuntimeFixture&) = delete;
  RuntimeFixture& operator=(const RuntimeFixture&) = delete;

  sim::Simulator sim;
};

/// Nothing runs unless a test or a host wait makes it.
struct ManualRuntime : RuntimeFixture {
  ManualRuntime() : RuntimeFixture("memory=1GiB,progress=manual,devices=2") {}
};

struct EagerRuntime : RuntimeFixture {
  EagerRuntime() : RuntimeFixture("memory=1GiB,devices=2") {}
};

inline unsigned char* make_memory(std::size_t bytes) {
  void* pointer = nullptr;
  OK(cudaMalloc(&pointer, bytes));
  return static_cast<unsigned char*>(pointer);
}

inline unsigned char* make_pinned(std::size_t bytes) {
  void* pointer = nullptr;
  OK(cudaMallocHost(&pointer, bytes));
  return static_cast<unsigned char*>(pointer);
}

inline cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

inline cudaEvent_t make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  OK(cudaEventCreateWithFlags(&event, flags));
  return event;
}

using Bytes = std::vector<unsigned char>;

/// 0, 1, 2 ... as they fit.
inline Bytes counted(std::size_t bytes) {
  Bytes values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<unsigned char>(i * 7 + i / 256);
  return values;
}

/// What `pointer` holds now.
inline Bytes read_back(const void* pointer, std::size_t bytes) {
  Bytes values(bytes);
  OK(cudaMemcpy(values.data(), pointer, bytes, cudaMemcpyDefault));
  return values;
}

}  // namespace berth::test
