// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <thread>

#include "cudart/cudart_fixture.hpp"

namespace cudart_error_test {

using namespace berth::test;

/// Submits work that uses memory which is gone when it runs.
void fault(berth::sim::Simulator& sim) {
  unsigned char* const memory = make_memory(4096);
  sim.launch(nullptr, 0, {berth::sim::MemoryUse::write(memory, 4096)});
  // In pinned memory nothing is freed under work; an address that was never mapped faults.
  sim.launch(nullptr, 0, {berth::sim::MemoryUse::write(memory + (1 << 24), 4096)});
}

TEST_CASE_FIXTURE(EagerRuntime,
                  "each thread has its own last error, which cudaGetLastError resets") {
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] { elsewhere = cudaPeekAtLastError(); }).join();
  CHECK(elsewhere == cudaSuccess);
  OK(cudaFree(nullptr));
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE_FIXTURE(EagerRuntime, "a later error replaces an earlier one") {
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  CHECK(cudaMalloc(nullptr, 1) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE_FIXTURE(ManualRuntime, "cudaErrorNotReady is not recorded as the last error") {
  const cudaStream_t stream = make_stream();
  OK(cudaMemsetAsync(make_memory(100), 1, 100, stream));
  const cudaEvent_t event = make_event();
  OK(cudaEventRecord(event, stream));
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  OK(cudaStreamSynchronize(stream));
}

TEST_CASE_FIXTURE(EagerRuntime, "an out-of-memory error is reset by cudaGetLastError") {
  void* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, 1ULL << 40) == cudaErrorMemoryAllocation);
  CHECK(pointer == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  OK(cudaFree(make_memory(100)));
}

TEST_CASE_FIXTURE(EagerRuntime, "a device fault is returned until the device is reset") {
  fault(sim);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  void* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, 100) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  OK(cudaDeviceReset());
  CHECK(cudaGetLastError() == cudaSuccess);
  OK(cudaMalloc(&pointer, 100));
  static_cast<void>(sim.take_findings());
}

TEST_CASE("errors have the names of the header, and short texts") {
  CHECK(std::string(cudaGetErrorName(cudaSuccess)) == "cudaSuccess");
  CHECK(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  CHECK(std::string(cudaGetErrorName(static_cast<cudaError_t>(12345))) ==
        "unrecognized error code");
  CHECK(std::string(cudaGetErrorString(static_cast<cudaError_t>(12345))) ==
        "unrecognized error code");
}

TEST_CASE_FIXTURE(EagerRuntime, "an unsupported function fails on each call") {
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format =
      cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
  CHECK(format.x == 8);
  CHECK(format.f == cudaChannelFormatKindUnsigned);
  CHECK(cudaMallocArray(&array, &format, 16, 16, 0) == cudaErrorNotSupported);
  CHECK(cudaMallocArray(&array, &format, 16, 16, 0) == cudaErrorNotSupported);
  CHECK(cudaGetLastError() == cudaErrorNotSupported);
  const cudaUUID_t id{};
  const void* table = nullptr;
  CHECK(cudaGetExportTable(&table, &id) == cudaErrorNotSupported);
  CHECK(table == nullptr);
}

}  // namespace cudart_error_test
