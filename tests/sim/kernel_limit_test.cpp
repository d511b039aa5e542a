// SPDX-License-Identifier: Apache-2.0
// Limits of launches, attributes that programs set, occupancy, and what modules contain.
#include <cstddef>
#include <string>
#include <vector>

#include "sim/sim_fixture.hpp"

namespace kernel_limit_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kPtx =
    ".version 8.0 // .entry none(\n.target sm_80 /* .entry none( */\n"
    ".visible .entry fill(\n  .param .u8 flag,\n  .param .u64 .ptr .global .align 16 to,\n"
    "  .param .align 4 .b8 sizes[12]\n)\n{ ret; }\n.entry empty\n{ ret; }\n.entry none()\n{ }\n";
constexpr const char* kFatBinary = "\x50\xed\x55\xba";

struct LimitFixture : SimFixture {
  LimitFixture() : SimFixture("memory=64MiB,devices=2,kernels=skip") {
    OK(CU(cuModuleLoadData)(&module, kPtx));
    OK(CU(cuModuleGetFunction)(&fill, module, "fill"));
  }

  CUresult launch(unsigned grid_x, unsigned threads, unsigned shared_bytes = 0) {
    return CU(cuLaunchKernel)(fill, grid_x, 1, 1, threads, 1, 1, shared_bytes, nullptr, nullptr,
                              nullptr);
  }
  CUresult launch_cooperatively(unsigned grid_x, unsigned grid_y, unsigned threads) {
    return CU(cuLaunchCooperativeKernel)(fill, grid_x, grid_y, 1, threads, 1, 1, 0, nullptr,
                                         nullptr);
  }
  CUresult set(CUfunction_attribute attribute, int value) {
    return CU(cuFuncSetAttribute)(fill, attribute, value);
  }
  int get(CUfunction_attribute attribute) {
    int value = -7;
    OK(CU(cuFuncGetAttribute)(&value, attribute, fill));
    return value;
  }
  int limit(CUdevice_attribute attribute) {
    int value = 0;
    OK(CU(cuDeviceGetAttribute)(&value, attribute, 0));
    return value;
  }

  CUmodule module = nullptr;
  CUfunction fill = nullptr;
};

constexpr auto kDynamicShared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;

std::size_t quarter_of_threads(int threads) {
  return threads > 256 ? 1 << 20 : 1024;
}

}  // namespace

TEST_CASE_FIXTURE(LimitFixture, "a launch gets more than 48 KiB of shared memory if it opts in") {
  CHECK(get(kDynamicShared) == 48 << 10);
  OK(launch(1, 32, 48 << 10));
  CHECK(launch(1, 32, (48 << 10) + 1) == CUDA_ERROR_INVALID_VALUE);
  OK(set(kDynamicShared, 100 << 10));
  CHECK(get(kDynamicShared) == 100 << 10);
  OK(launch(1, 32, 100 << 10));
  CHECK(launch(1, 32, (100 << 10) + 1) == CUDA_ERROR_INVALID_VALUE);
  OK(set(kDynamicShared, 1024));
  CHECK(launch(1, 32, 2048) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(LimitFixture, "an attribute takes only values that the device allows") {
  const int most = limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  OK(set(kDynamicShared, most));
  CHECK(set(kDynamicShared, most + 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(set(kDynamicShared, -1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(get(kDynamicShared) == most);
  constexpr auto carveout = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
  CHECK(get(carveout) == -1);
  OK(set(carveout, 100));
  CHECK(set(carveout, 101) == CUDA_ERROR_INVALID_VALUE);
  CHECK(get(carveout) == 100);
  CHECK(set(CU_FUNC_ATTRIBUTE_NUM_REGS, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(get(CU_FUNC_ATTRIBUTE_NUM_REGS) == 32);
}

TEST_CASE_FIXTURE(LimitFixture, "a kernel of a library has its attributes on each device") {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  OK(CU(cuLibraryLoadData)(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(CU(cuLibraryGetKernel)(&kernel, library, "fill"));
  OK(CU(cuKernelSetAttribute)(kDynamicShared, 64 << 10, kernel, 1));
  CHECK(CU(cuKernelSetAttribute)(kDynamicShared, 1 << 20, kernel, 1) == CUDA_ERROR_INVALID_VALUE);
  int value = 0;
  OK(CU(cuKernelGetAttribute)(&value, kDynamicShared, kernel, 0));
  CHECK(value == 48 << 10);
  OK(CU(cuKernelGetAttribute)(&value, kDynamicShared, kernel, 1));
  CHECK(value == 64 << 10);
}

TEST_CASE_FIXTURE(LimitFixture, "the blocks of a cooperative launch fit on the device at once") {
  const auto most = 2 * static_cast<unsigned>(limit(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  OK(launch_cooperatively(most, 1, 1024));
  CHECK(launch_cooperatively(most + 1, 1, 1024) == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  CHECK(launch_cooperatively(1 << 20, 65535, 1) == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  CHECK(launch_cooperatively(1, 1, 1025) == CUDA_ERROR_INVALID_VALUE);
  OK(launch(most + 1, 1024));
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  CUlaunchConfig config{};
  config.gridDimX = most + 1;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 1024;
  config.attrs = &attribute;
  config.numAttrs = 1;
  OK(CU(cuLaunchKernelEx)(&config, fill, nullptr, nullptr));
  attribute.value.cooperative = 1;
  CHECK(CU(cuLaunchKernelEx)(&config, fill, nullptr, nullptr) ==
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

TEST_CASE_FIXTURE(LimitFixture, "the suggested block has the most threads on a multiprocessor") {
  const int multiprocessors = limit(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  int grid = 0;
  int block = 0;
  OK(CU(cuOccupancyMaxPotentialBlockSize)(&grid, &block, fill, nullptr, 0, 0));
  CHECK(block == 1024);
  CHECK(grid == 2 * multiprocessors);
  OK(CU(cuOccupancyMaxPotentialBlockSize)(&grid, &block, fill, nullptr, 0, 200));
  CHECK(block == 128);  // 16 blocks of 4 warps, and only 9 of 7
  CHECK(grid == 16 * multiprocessors);
  OK(CU(cuOccupancyMaxPotentialBlockSizeWithFlags)(&grid, &block, fill, &quarter_of_threads, 0, 0,
                                                   CU_OCCUPANCY_DEFAULT));
  CHECK(block == 256);
  OK(CU(cuOccupancyMaxPotentialBlockSize)(&grid, &block, fill, nullptr, 1 << 20, 0));
  CHECK(block == 0);
  CHECK(CU(cuOccupancyMaxPotentialBlockSize)(nullptr, &block, fill, nullptr, 0, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuOccupancyMaxPotentialBlockSize)(&grid, &block, fill, nullptr, 0, -1) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuOccupancyMaxPotentialBlockSizeWithFlags)(&grid, &block, fill, nullptr, 0, 0, 2) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuOccupancyMaxPotentialBlockSize)(&grid, &block, nullptr, nullptr, 0, 0) ==
        CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_FIXTURE(LimitFixture, "so many blocks with the available shared memory fit") {
  for (const int blocks : {1, 2, 7, 32}) {
    CAPTURE(blocks);
    std::size_t shared_bytes = 0;
    OK(CU(cuOccupancyAvailableDynamicSMemPerBlock)(&shared_bytes, fill, blocks, 64));
    CHECK(shared_bytes > 0);
    int fitting = 0;
    OK(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&fitting, fill, 64, shared_bytes));
    CHECK(fitting >= blocks);
    OK(CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&fitting, fill, 64, shared_bytes + 2048));
    if (blocks > 1) CHECK(fitting < blocks);
  }
  std::size_t shared_bytes = 1;
  OK(CU(cuOccupancyAvailableDynamicSMemPerBlock)(&shared_bytes, fill, 3, 1024));
  CHECK(shared_bytes == 0);
  CHECK(CU(cuOccupancyAvailableDynamicSMemPerBlock)(&shared_bytes, fill, 0, 64) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuOccupancyAvailableDynamicSMemPerBlock)(nullptr, fill, 1, 64) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(LimitFixture, "clusters have up to 8 blocks, or 16 if the kernel allows it") {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {4, 2, 1};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 1024;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int count = 0;
  OK(CU(cuOccupancyMaxActiveClusters)(&count, fill, &config));
  CHECK(count == 2 * limit(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) / 8);
  attribute.value.clusterDim = {4, 4, 1};
  CHECK(CU(cuOccupancyMaxActiveClusters)(&count, fill, &config) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  int size = 0;
  OK(CU(cuOccupancyMaxPotentialClusterSize)(&size, fill, &config));
  CHECK(size == 8);
  OK(set(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  OK(CU(cuOccupancyMaxActiveClusters)(&count, fill, &config));
  OK(CU(cuOccupancyMaxPotentialClusterSize)(&size, fill, &config));
  CHECK(size == 16);
  attribute.value.clusterDim = {1, 0, 1};
  CHECK(CU(cuOccupancyMaxActiveClusters)(&count, fill, &config) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  config.blockDimX = 1025;
  CHECK(CU(cuOccupancyMaxActiveClusters)(&count, fill, &config) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuOccupancyMaxPotentialClusterSize)(&size, fill, &config) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuOccupancyMaxActiveClusters)(&count, fill, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE_FIXTURE(LimitFixture, "the kernels of PTX are counted and listed") {
  unsigned count = 0;
  OK(CU(cuModuleGetFunctionCount)(&count, module));
  CHECK(count == 3);
  std::vector<CUfunction> functions(5);
  OK(CU(cuModuleEnumerateFunctions)(functions.data(), 5, module));
  CHECK(functions[0] == fill);
  const char* name = nullptr;
  OK(CU(cuFuncGetName)(&name, functions[1]));
  CHECK(std::string(name) == "empty");
  CHECK(functions[3] == nullptr);
  CHECK(CU(cuModuleEnumerateFunctions)(functions.data(), 0, module) == CUDA_ERROR_INVALID_VALUE);
  CUlibrary library = nullptr;
  OK(CU(cuLibraryLoadData)(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(CU(cuLibraryGetKernelCount)(&count, library));
  CHECK(count == 3);
  CUkernel kernels[2] = {};
  OK(CU(cuLibraryEnumerateKernels)(kernels, 1, library));
  OK(CU(cuKernelGetName)(&name, kernels[0]));
  CHECK(std::string(name) == "fill");
  CHECK(kernels[1] == nullptr);
  CHECK(CU(cuLibraryGetKernelCount)(&count, reinterpret_cast<CUlibrary>(module)) ==
        CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_FIXTURE(LimitFixture, "the parameters of a kernel are those of its PTX") {
  const std::size_t expected[][2] = {{0, 1}, {8, 8}, {16, 12}};
  for (std::size_t index = 0; index != 3; ++index) {
    CAPTURE(index);
    std::size_t offset = 99;
    std::size_t bytes = 99;
    OK(CU(cuFuncGetParamInfo)(fill, index, &offset, &bytes));
    CHECK(offset == expected[index][0]);
    CHECK(bytes == expected[index][1]);
    OK(CU(cuKernelGetParamInfo)(reinterpret_cast<CUkernel>(fill), index, &offset, nullptr));
    CHECK(offset == expected[index][0]);
  }
  std::size_t offset = 0;
  CHECK(CU(cuFuncGetParamInfo)(fill, 3, &offset, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuFuncGetParamInfo)(fill, 0, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuFuncGetParamInfo)(nullptr, 0, &offset, nullptr) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_FIXTURE(LimitFixture, "what a binary contains is not known") {
  CUmodule binary = nullptr;
  CUfunction any = nullptr;
  OK(CU(cuModuleLoadData)(&binary, kFatBinary));
  OK(CU(cuModuleGetFunction)(&any, binary, "any"));
  unsigned count = 0;
  std::size_t offset = 0;
  CHECK(CU(cuModuleGetFunctionCount)(&count, binary) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuModuleEnumerateFunctions)(&any, 1, binary) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(CU(cuFuncGetParamInfo)(any, 0, &offset, nullptr) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE_FIXTURE(LimitFixture, "every function is loaded") {
  CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
  OK(CU(cuFuncIsLoaded)(&state, fill));
  CHECK(state == CU_FUNCTION_LOADING_STATE_LOADED);
  OK(CU(cuFuncLoad)(fill));
  CHECK(CU(cuFuncLoad)(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuFuncIsLoaded)(nullptr, fill) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace kernel_limit_test
