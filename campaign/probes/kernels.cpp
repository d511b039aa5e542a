// SPDX-License-Identifier: Apache-2.0
#include "probes/kernels.hpp"

#include <array>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "base/env.hpp"

namespace berth::campaign {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 512;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void CUDA_CB sleep_for(void* duration_ns) {
  const std::unique_ptr<std::chrono::nanoseconds> duration(
      static_cast<std::chrono::nanoseconds*>(duration_ns));
  std::this_thread::sleep_for(*duration);
}

}  // namespace

/// As in kernels.cu.
std::uint64_t Kernels::word(std::uint64_t index, std::uint64_t seed) {
  std::uint64_t x = index + seed * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

Kernels::Kernels(const Machine& machine) : machine_(machine) {
  const auto path = env("BERTH_CAMPAIGN_KERNELS");
  const auto load = machine.find<CUresult(CUmodule*, const void*)>("cuModuleLoadData", 2000);
  launch_ = machine.find<std::remove_pointer_t<decltype(&cuLaunchKernel)>>("cuLaunchKernel", 4000);
  if (!path || load == nullptr || launch_ == nullptr) return;
  const std::string text = read_file(*path);
  if (const CUresult loaded = load(&module_, text.c_str()); loaded != CUDA_SUCCESS) {
    throw std::runtime_error(
        fmt::format("the kernels are refused: {}", machine.driver().describe(loaded)));
  }
  spin_ = function("spin");
  notice_ = function("notice_stalls");
  fill_ = function("fill");
  check_ = function("check");
  fail_ = function("fail");
  machine.driver().mem_alloc(&answer_, kWordBytes);
  run_each_once();
}

void Kernels::run_each_once() const {
  CUstream stream = nullptr;
  machine_.driver().stream_create_with_priority(&stream, unsigned{CU_STREAM_NON_BLOCKING}, 0);
  spin(stream, std::chrono::nanoseconds(0));
  begin_noticing(stream, std::chrono::nanoseconds(0), answer_, 0);
  fill(stream, answer_, kWordBytes, 0);
  static_cast<void>(mismatches(stream, answer_, 0, 0));
  machine_.driver().stream_destroy(stream);
}

Kernels::~Kernels() {
  if (module_ == nullptr) return;
  machine_.driver().try_mem_free(answer_);
  if (const auto unload = machine_.find<CUresult(CUmodule)>("cuModuleUnload", 2000))
    unload(module_);
}

CUfunction Kernels::function(const char* name) const {
  const auto get =
      machine_.find<CUresult(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction", 2000);
  CUfunction found = nullptr;
  const CUresult result = get == nullptr ? CUDA_ERROR_NOT_FOUND : get(&found, module_, name);
  if (result == CUDA_SUCCESS) return found;
  throw std::runtime_error(
      fmt::format("no kernel {}: {}", name, machine_.driver().describe(result)));
}

void Kernels::launch(CUfunction function, unsigned blocks, unsigned threads, CUstream stream,
                     void** arguments) const {
  const CUresult result =
      launch_(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr);
  if (result == CUDA_SUCCESS) return;
  throw std::runtime_error(fmt::format("cuLaunchKernel: {}", machine_.driver().describe(result)));
}

void Kernels::spin(CUstream stream, std::chrono::nanoseconds duration) const {
  if (!are_real()) {
    auto owned = std::make_unique<std::chrono::nanoseconds>(duration);
    machine_.driver().launch_host_func(stream, &sleep_for, static_cast<void*>(owned.get()));
    static_cast<void>(owned.release());
    return;
  }
  auto duration_ns = static_cast<std::uint64_t>(duration.count());
  std::array<void*, 1> arguments{&duration_ns};
  launch(spin_, 1, 1, stream, arguments.data());
}

void Kernels::fail(CUstream stream) const {
  launch(fail_, 1, 1, stream, nullptr);
}

void Kernels::begin_noticing(CUstream stream, std::chrono::nanoseconds duration, CUdeviceptr zeros,
                             std::size_t bytes) const {
  auto duration_ns = static_cast<std::uint64_t>(duration.count());
  std::uint64_t count = bytes / kWordBytes;
  CUdeviceptr longest = answer_;
  std::array<void*, 4> arguments{&duration_ns, &zeros, &count, &longest};
  launch(notice_, 1, 1, stream, arguments.data());
}

std::uint64_t Kernels::answer(CUstream stream) const {
  const Driver& driver = machine_.driver();
  std::uint64_t word = 0;
  driver.memcpy_async(reinterpret_cast<CUdeviceptr>(&word), answer_, kWordBytes, stream);
  driver.stream_synchronize(stream);
  return word;
}

void Kernels::fill(CUstream stream, CUdeviceptr data, std::size_t bytes, std::uint64_t seed) const {
  std::uint64_t count = bytes / kWordBytes;
  if (are_real()) {
    std::array<void*, 3> arguments{&data, &count, &seed};
    return launch(fill_, kBlocks, kThreads, stream, arguments.data());
  }
  std::vector<std::uint64_t> words(count);
  for (std::uint64_t i = 0; i < count; ++i) words[i] = word(i, seed);
  machine_.driver().memcpy_async(data, reinterpret_cast<CUdeviceptr>(words.data()), bytes, stream);
  machine_.driver().stream_synchronize(stream);  // the words are freed next
}

std::uint64_t Kernels::mismatches(CUstream stream, CUdeviceptr data, std::size_t bytes,
                                  std::uint64_t seed) const {
  const Driver& driver = machine_.driver();
  std::uint64_t count = bytes / kWordBytes;
  if (are_real()) {
    CUdeviceptr found = answer_;
    driver.memset_d8_async(answer_, static_cast<unsigned char>(0), kWordBytes, stream);
    std::array<void*, 4> arguments{&data, &count, &seed, &found};
    launch(check_, kBlocks, kThreads, stream, arguments.data());
    return answer(stream);
  }
  std::vector<std::uint64_t> words(count);
  driver.memcpy_async(reinterpret_cast<CUdeviceptr>(words.data()), data, bytes, stream);
  driver.stream_synchronize(stream);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) wrong += words[i] != word(i, seed) ? 1 : 0;
  return wrong;
}

}  // namespace berth::campaign
