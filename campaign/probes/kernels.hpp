// SPDX-License-Identifier: Apache-2.0
// The campaign's kernels, compiled on this machine. If that failed, and on the simulated driver,
// which runs no kernels, host functions keep streams busy, and the host fills and checks memory by
// copies.
#pragma once

#include <cuda.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "probes/machine.hpp"

namespace berth::campaign {

class Kernels {
 public:
  /// Blocking  Runs each kernel once: a driver may load a kernel when it is first launched.
  explicit Kernels(const Machine& machine);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// False if host functions and copies replace them.
  [[nodiscard]] bool are_real() const { return module_ != nullptr; }

  /// Keeps the stream busy for that time.
  void spin(CUstream stream, std::chrono::nanoseconds duration) const;
  /// The longest time for which a kernel that runs for `duration` was stopped while `meanwhile` ran
  /// on the host. The kernel continuously reads `bytes` of device memory, which are zero; none if
  /// 0. nullopt without kernels.
  template <class Action>
  [[nodiscard]] std::optional<std::uint64_t> longest_stall(CUstream stream,
                                                           std::chrono::nanoseconds duration,
                                                           CUdeviceptr zeros, std::size_t bytes,
                                                           const Action& meanwhile) const {
    if (!are_real()) return std::nullopt;
    begin_noticing(stream, duration, zeros, bytes);
    meanwhile();
    return answer(stream);
  }

  /// Writes every word of a range of device memory, which depends on its place and the seed.
  /// `bytes` is a multiple of 8.
  void fill(CUstream stream, CUdeviceptr data, std::size_t bytes, std::uint64_t seed) const;
  /// The number of words that differ from those of fill().
  /// Blocking  Until the stream has come to it.
  [[nodiscard]] std::uint64_t mismatches(CUstream stream, CUdeviceptr data, std::size_t bytes,
                                         std::uint64_t seed) const;
  /// The words that fill() writes.
  [[nodiscard]] static std::uint64_t word(std::uint64_t index, std::uint64_t seed);
  /// A kernel that fails: every later call of the context does, too. Not without kernels.
  void fail(CUstream stream) const;

 private:
  void begin_noticing(CUstream stream, std::chrono::nanoseconds duration, CUdeviceptr zeros,
                      std::size_t bytes) const;
  [[nodiscard]] std::uint64_t answer(CUstream stream) const;
  void launch(CUfunction function, unsigned blocks, unsigned threads, CUstream stream,
              void** arguments) const;
  [[nodiscard]] CUfunction function(const char* name) const;
  void run_each_once() const;

  const Machine& machine_;
  CUmodule module_ = nullptr;
  decltype(&cuLaunchKernel) launch_ = nullptr;
  CUfunction spin_ = nullptr;
  CUfunction notice_ = nullptr;
  CUfunction fill_ = nullptr;
  CUfunction check_ = nullptr;
  CUfunction fail_ = nullptr;
  CUdeviceptr answer_ = 0;  ///< a word for the result of a kernel
};

}  // namespace berth::campaign
