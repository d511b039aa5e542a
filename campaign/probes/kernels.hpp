// SPDX-License-Identifier: Apache-2.0
// The campaign's kernels, as they were compiled on this machine. Where they could not be, and on the simulated
// driver, which runs none, host functions keep streams busy, and copies of the host fill and check memory.
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
  explicit Kernels(const Machine& machine);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /// False where host functions and copies stand in.
  [[nodiscard]] bool are_real() const { return module_ != nullptr; }

  /// Keeps the stream busy for so long.
  void spin(CUstream stream, std::chrono::nanoseconds duration) const;
  /// The longest time for which a kernel that runs for `duration` stood still while `meanwhile` ran on the
  /// host; nullopt where there are no kernels.
  template <class Action>
  [[nodiscard]] std::optional<std::uint64_t> longest_stall(CUstream stream,
                                                           std::chrono::nanoseconds duration,
                                                           const Action& meanwhile) const {
    if (!are_real()) return std::nullopt;
    begin_noticing(stream, duration);
    meanwhile();
    return answer(stream);
  }

  /// Writes every word of a range of device memory, as a seed says. `bytes` is a multiple of 8.
  void fill(CUstream stream, CUdeviceptr data, std::size_t bytes, std::uint64_t seed) const;
  /// How many words are not as fill() wrote them.
  /// Blocking  Until the stream has come to it.
  [[nodiscard]] std::uint64_t mismatches(CUstream stream, CUdeviceptr data, std::size_t bytes,
                                         std::uint64_t seed) const;

 private:
  void begin_noticing(CUstream stream, std::chrono::nanoseconds duration) const;
  [[nodiscard]] std::uint64_t answer(CUstream stream) const;
  void launch(CUfunction function, unsigned blocks, unsigned threads, CUstream stream,
              void** arguments) const;
  [[nodiscard]] CUfunction function(const char* name) const;

  const Machine& machine_;
  CUmodule module_ = nullptr;
  decltype(&cuLaunchKernel) launch_ = nullptr;
  CUfunction spin_ = nullptr;
  CUfunction notice_ = nullptr;
  CUfunction fill_ = nullptr;
  CUfunction check_ = nullptr;
  CUdeviceptr answer_ = 0;  ///< a word, for what a kernel answers
};

}  // namespace berth::campaign
