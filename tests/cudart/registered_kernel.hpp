// SPDX-License-Identifier: Apache-2.0
// A kernel as nvcc's host code registers it: void fill(unsigned char* to, unsigned value).
#pragma once

#include <string>

#include "cudart/cudart_fixture.hpp"

// As crt/host_runtime.h declares them.
extern "C" {
void** __cudaRegisterFatBinary(void* binary);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* host_function, char* device_function,
                            const char* device_name, int thread_limit, void* tid, void* bid,
                            void* block, void* grid, int* warp_size);
}

namespace berth::test {

inline const char fill_stub = 0;

struct RegisteredKernel : RuntimeFixture {
  explicit RegisteredKernel(const std::string& kernels)
      : RuntimeFixture("memory=1GiB,kernels=" + kernels), binary(__cudaRegisterFatBinary(nullptr)) {
    __cudaRegisterFunction(binary, &fill_stub, nullptr, "_Z4fillPhj", -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
  }
  ~RegisteredKernel() {
    __cudaUnregisterFatBinary(binary);
    sim::Simulator::stand_in_for("fill", nullptr);
  }

  /// A host function stands in for the kernel.
  static void stand_in() {
    sim::Simulator::stand_in_for("fill", [](const sim::KernelLaunch& launch) {
      const auto value = launch.argument<unsigned>(1);
      return sim::Kernel{
          .uses = {sim::MemoryUse::write(launch.argument<unsigned char*>(0), launch.block[0])},
          .compute = [value](sim::KernelMemory ranges) {
            for (std::byte& byte : ranges[0]) byte = std::byte(value);
          }};
    });
  }

  void** binary;
};

}  // namespace berth::test
