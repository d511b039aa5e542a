// SPDX-License-Identifier: Apache-2.0
// Launches of kernels that nvcc's host code has registered, with each value of kernels=.
#include <cstdint>

#include "cudart/registered_kernel.hpp"

namespace cudart_launch_test {

using namespace berth::test;

namespace {

struct LaunchRuntime : RegisteredKernel {
  using RegisteredKernel::RegisteredKernel;

  cudaError_t launch(unsigned char* to, unsigned value, cudaStream_t stream, unsigned threads = 8) {
    void* arguments[] = {&to, &value};
    return cudaLaunchKernel(&fill_stub, {1, 1, 1}, {threads, 1, 1}, arguments, 0, stream);
  }
};

}  // namespace

TEST_CASE("a launch is refused by default, and the error is the thread's last one") {
  LaunchRuntime runtime("refuse");
  CHECK(runtime.launch(make_memory(8), 1, make_stream()) == cudaErrorNotSupported);
  CHECK(cudaGetLastError() == cudaErrorNotSupported);
  CHECK(cudaGetLastError() == cudaSuccess);
}

// Source: CUDA Programming Guide, "Stream and Event Behavior".
TEST_CASE("a launch on a stream of another device than the current one is refused") {
  LaunchRuntime runtime("skip,devices=2");
  OK(cudaSetDevice(1));
  cudaStream_t far = make_stream();
  OK(cudaSetDevice(0));
  CHECK(runtime.launch(nullptr, 1, far) == cudaErrorInvalidResourceHandle);
  OK(cudaSetDevice(1));
  CHECK(runtime.launch(nullptr, 1, far) == cudaSuccess);
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
  LaunchRuntime::stand_in();
  OK(runtime.launch(memory, 9, stream));
  OK(cudaStreamSynchronize(stream));
  CHECK(read_back(memory, 8) == Bytes(8, 9));
}

TEST_CASE("the limits of a launch are those of the device and of its kernel") {
  LaunchRuntime runtime("skip");
  const auto launch = [](dim3 grid, dim3 block, std::size_t shared_bytes) {
    return cudaLaunchKernel(&fill_stub, grid, block, nullptr, shared_bytes, nullptr);
  };
  OK(launch({1, 65535, 1}, {1, 1, 64}, 48 << 10));
  CHECK(launch({1, 70000, 1}, {1, 1, 1}, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch({1, 1, 1}, {1, 1, 65}, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch({1, 1, 1}, {1, 1, 1}, 100 << 10) == cudaErrorInvalidValue);
  constexpr auto dynamic_shared = cudaFuncAttributeMaxDynamicSharedMemorySize;
  CHECK(cudaFuncSetAttribute(&fill_stub, dynamic_shared, 300 << 10) == cudaErrorInvalidValue);
  OK(cudaFuncSetAttribute(&fill_stub, dynamic_shared, 200 << 10));
  OK(launch({1, 1, 1}, {1, 1, 1}, 100 << 10));
  cudaFuncAttributes attributes{};
  OK(cudaFuncGetAttributes(&attributes, &fill_stub));
  CHECK(attributes.maxDynamicSharedSizeBytes == 200 << 10);
  CHECK(attributes.maxThreadsPerBlock == 1024);
  CHECK(attributes.numRegs == 32);
  CHECK(cudaFuncGetAttributes(nullptr, &fill_stub) == cudaErrorInvalidValue);
  CHECK(cudaFuncGetAttributes(&attributes, &runtime) == cudaErrorInvalidDeviceFunction);
}

TEST_CASE("a cooperative launch is refused if its blocks do not fit at once") {
  LaunchRuntime runtime("skip");
  OK(cudaLaunchCooperativeKernel(&fill_stub, {2, 1, 1}, {1024, 1, 1}, nullptr, 0, nullptr));
  CHECK(cudaLaunchCooperativeKernel(&fill_stub, {1 << 20, 1, 1}, {1024, 1, 1}, nullptr, 0,
                                    nullptr) == cudaErrorCooperativeLaunchTooLarge);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = {1 << 20, 1, 1};
  config.blockDim = {1024, 1, 1};
  OK(cudaLaunchKernelExC(&config, &fill_stub, nullptr));
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelExC(&config, &fill_stub, nullptr) == cudaErrorCooperativeLaunchTooLarge);
}

TEST_CASE("the occupancy of a kernel is that of the driver") {
  LaunchRuntime runtime("skip");
  int count = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, &fill_stub, 1024, 0));
  CHECK(count == 2);
  std::size_t shared_bytes = 0;
  OK(cudaOccupancyAvailableDynamicSMemPerBlock(&shared_bytes, &fill_stub, 2, 64));
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, &fill_stub, 64, shared_bytes));
  CHECK(count == 2);
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = {1, 1, 1};
  OK(cudaOccupancyMaxPotentialClusterSize(&count, &fill_stub, &config));
  CHECK(count == 8);
  OK(cudaOccupancyMaxActiveClusters(&count, &fill_stub, &config));
  CHECK(count > 8);
  CHECK(cudaOccupancyMaxActiveClusters(&count, &fill_stub, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("a kernel of a library is launched by its handle") {
  LaunchRuntime runtime("skip");
  constexpr const char* ptx = ".version 8.0\n.target sm_80\n.entry add(.param .u64 to) { ret; }\n";
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  unsigned count = 0;
  OK(cudaLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(cudaLibraryGetKernelCount(&count, library));
  CHECK(count == 1);
  OK(cudaLibraryGetKernel(&kernel, library, "add"));
  cudaKernel_t listed = nullptr;
  OK(cudaLibraryEnumerateKernels(&listed, 1, library));
  CHECK(listed == kernel);
  OK(cudaLaunchKernel(kernel, {1, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr));
  OK(cudaLibraryUnload(library));
  CHECK(cudaLaunchKernel(kernel, {1, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr) ==
        cudaErrorInvalidDeviceFunction);
  CHECK(cudaLibraryLoadFromFile(&library, "/no/such/file", nullptr, nullptr, 0, nullptr, nullptr,
                                0) == cudaErrorFileNotFound);
}

TEST_CASE("variables of a library have memory with their initial values") {
  LaunchRuntime runtime("skip");
  constexpr const char* ptx =
      ".version 8.0\n.target sm_80\n.global .u8 one = 1;\n.global .attribute(.managed) .u8 two;\n";
  cudaLibrary_t library = nullptr;
  OK(cudaLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  void* found = nullptr;
  std::size_t bytes = 0;
  OK(cudaLibraryGetGlobal(&found, &bytes, library, "one"));
  CHECK(bytes == 1);
  CHECK(read_back(static_cast<unsigned char*>(found), 1) == Bytes(1, 1));
  OK(cudaLibraryGetManaged(&found, &bytes, library, "two"));
  CHECK(*static_cast<unsigned char*>(found) == 0);
  CHECK(cudaLibraryGetGlobal(&found, &bytes, library, "three") == cudaErrorSymbolNotFound);
  OK(cudaLibraryUnload(library));
}

}  // namespace cudart_launch_test
