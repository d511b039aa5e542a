// SPDX-License-Identifier: Apache-2.0
// Kernels on GPUs: the same text, compiled by NVRTC. NVRTC is loaded when the first kernel is
// launched, and the functions of the CUDA driver are those of berth's driver: nothing is linked.
#pragma once

#include <berth/berth.hpp>
#include <chrono>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "../core/kernels.hpp"

namespace mini {

class CompiledKernels final : public Kernels {
 public:
  explicit CompiledKernels(berth::Runtime& runtime) : runtime_(runtime) {}

  void launch(const Kernel& kernel, const Args& args, const std::array<std::size_t, 3>&, long count,
              berth::StreamRef stream) override {
    const berth::DeviceGuard guard(runtime_.devices(), stream.device());
    void* const function = find(kernel.name, stream.device());
    Args copy = args;
    void* parameters[] = {&copy, &count};
    constexpr unsigned kThreads = 256;
    const auto blocks = unsigned((count + kThreads - 1) / kThreads);
    if (blocks == 0) return;
    driver<int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
               CUstream_st*, void**, void**)>("cuLaunchKernel", 4000, function, blocks, 1u, 1u,
                                              kThreads, 1u, 1u, 0u, stream.native(), parameters,
                                              nullptr);
  }

  void host_uses(const void*, std::size_t, bool) override {}
  std::uint64_t now_ns() override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }

 private:
  [[noreturn]] static void fail(const char* function, int code) {
    throw berth::NotSupported(std::string(function) + " failed with code " + std::to_string(code));
  }

  template <class Function, class... Values>
  void driver(const char* name, int version, Values... values) const {
    auto* const function = reinterpret_cast<Function*>(runtime_.driver_function(name, version));
    const int code = function == nullptr ? -1 : function(values...);
    if (code != 0) fail(name, code);
  }

  template <class Function, class... Values>
  static void nvrtc(const char* name, Values... values) {
    static void* const library = [] {
      for (const char* file : {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"})
        if (void* const opened = dlopen(file, RTLD_NOW)) return opened;
      throw berth::NotSupported("kernels need NVRTC: libnvrtc.so is not where the loader searches");
    }();
    auto* const function = reinterpret_cast<Function*>(dlsym(library, name));
    const int code = function == nullptr ? -1 : function(values...);
    if (code != 0) fail(name, code);
  }

  /// The kernels for a device, compiled for its architecture.
  std::string compile(berth::Device device, const char* name) const {
    const std::string text = std::string(element::kDeviceCode) + " extern \"C\" __global__ void " +
                             name +
                             "_all(Args args, long count) {"
                             " const long i = long(blockIdx.x) * blockDim.x + threadIdx.x;"
                             " if (i < count) " +
                             name + "(i, args); }";
    const berth::DeviceFacts& facts = runtime_.devices().facts(device);
    const std::string architecture = "-arch=sm_" +
                                     std::to_string(facts.compute_capability_major.value_or(0)) +
                                     std::to_string(facts.compute_capability_minor.value_or(0));
    const char* options[] = {architecture.c_str(), "-DMINI_KERNEL=__device__"};
    void* program = nullptr;
    using Names = const char* const*;
    nvrtc<int(void**, const char*, const char*, int, Names, Names)>(
        "nvrtcCreateProgram", &program, text.c_str(), "kernels.cu", 0, nullptr, nullptr);
    nvrtc<int(void*, int, Names)>("nvrtcCompileProgram", program, 2, options);
    std::size_t bytes = 0;
    nvrtc<int(void*, std::size_t*)>("nvrtcGetCUBINSize", program, &bytes);
    std::string binary(bytes, '\0');
    nvrtc<int(void*, char*)>("nvrtcGetCUBIN", program, binary.data());
    nvrtc<int(void**)>("nvrtcDestroyProgram", &program);
    return binary;
  }

  /// The kernel's function in the current context, which is the device's; loaded once and kept.
  void* find(const char* name, berth::Device device) {
    const std::lock_guard lock(mutex_);
    void*& function = functions_[{device, name}];
    if (function != nullptr) return function;
    const std::string binary = compile(device, name);
    void* module = nullptr;
    driver<int(void**, const void*)>("cuModuleLoadData", 2000, &module, binary.data());
    driver<int(void**, void*, const char*)>("cuModuleGetFunction", 2000, &function, module,
                                            (std::string(name) + "_all").c_str());
    return function;
  }

  berth::Runtime& runtime_;
  std::mutex mutex_;
  std::map<std::pair<berth::Device, std::string>, void*> functions_;
};

}  // namespace mini
