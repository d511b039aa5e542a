// SPDX-License-Identifier: Apache-2.0
// Launches of kernels that nvcc's host code has registered, with each value of kernels=.
#include <cstdint>

#include "cudart/cudart_fixture.hpp"

// As crt/host_runtime.h declares them.
extern "C" {
void** __cudaRegisterFatBinary(void* binary);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* host_function, char* device_function,
                            const char* device_name, int thread_limit, void* tid, void* bid,
                            void* block, void* grid, int* warp_size);
}

namespace cudart_launch_test {

using namespace berth::test;

namespace {

const char fill_stub = 0;

/// void fill(unsigned char* to, unsigned value), as nvcc registers it.
struct LaunchRuntime : RuntimeFixture {
  explicit LaunchRuntime(const char* kernels)
      : RuntimeFixture(std::string("memory=1GiB,kernels=") + kernels),
        binary(__cudaRegisterFatBinary(nullptr)) {
    __cudaRegisterFunction(binary, &fill_stub, nullptr, "_Z4fillPhj", -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
  }
  ~LaunchRuntime() {
    __cudaUnregisterFatBinary(binary);
    berth::sim::Simulator::stand_in_for("fill", nullptr);
  }

  cudaError_t launch(unsigned char* to, unsigned value, cudaStream_t stream, unsigned threads = 8) {
    void* arguments[] = {&to, &value};
    return cudaLaunchKernel(&fill_stub, {1, 1, 1}, {threads, 1, 1}, arguments, 0, stream);
  }

  void** binary;
};

}  // namespace

TEST_CASE("a launch is refused by default, and the error is the thread's last one") {
  LaunchRuntime runtime("refuse");
  CHECK(runtime.launch(make_memory(8), 1, make_stream()) == cudaErrorNotSupported);
  CHECK(cudaGetLastError() == cudaErrorNotSupported);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a launch that is skipped touches nothing") {
  LaunchRuntime runtime("skip");
  unsigned char* const memory = make_memory(8);
  OK(cudaMemset(memory, 3, 8));
  OK(runtime.launch(memory, 1, make_stream()));
  OK(cudaDeviceSynchronize());
  CHECK(read_back(memory, 8) == Bytes(8, 3));
  CHECK(runtime.launch(memory, 1, nullptr, 0) == cudaErrorInvalidConfiguration);
  CHECK(runtime.sim.calls("cuLaunchKernel") == 1);
}

TEST_CASE("a stand-in gets the arguments of a launch, by the kernel's name in the source") {
  LaunchRuntime runtime("host");
  unsigned char* const memory = make_memory(8);
  const cudaStream_t stream = make_stream();
  CHECK(runtime.launch(memory, 1, stream) == cudaErrorNotSupported);
  cudaGetLastError();
  berth::sim::Simulator::stand_in_for("fill", [](const berth::sim::KernelLaunch& launch) {
    const auto value = launch.argument<unsigned>(1);
    return berth::sim::Kernel{
        .uses = {berth::sim::MemoryUse::write(launch.argument<unsigned char*>(0), launch.block[0])},
        .compute = [value](berth::sim::KernelMemory ranges) {
          for (std::byte& byte : ranges[0]) byte = std::byte(value);
        }};
  });
  OK(runtime.launch(memory, 9, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(read_back(memory, 8) == Bytes(8, 9));
}

}  // namespace cudart_launch_test
