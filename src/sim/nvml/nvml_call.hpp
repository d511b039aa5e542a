// SPDX-License-Identifier: Apache-2.0
// What every call of NVML begins with, and its device handles. NVML sees every physical device in
// order of PCI address, whatever CUDA_VISIBLE_DEVICES hides, and the instances of MIG beside them.
#pragma once

#include <string_view>

#include "base/mutex.hpp"
#include "sim/lock.hpp"
#include "sim/nvml/functions.hpp"
#include "sim/state.hpp"

namespace berth::sim {

class BERTH_SCOPED_CAPABILITY NvmlCall {
 public:
  NvmlCall() BERTH_ACQUIRE(mutex);
  ~NvmlCall() BERTH_RELEASE() { mutex.unlock(); }
  NvmlCall(const NvmlCall&) = delete;
  NvmlCall& operator=(const NvmlCall&) = delete;

  /// What the call must return at once; kSuccess where NVML is initialised.
  [[nodiscard]] nvml::Return refusal() const {
    return state_ == nullptr ? nvml::kUninitialized : nvml::kSuccess;
  }
  [[nodiscard]] State& state() const { return *state_; }

  /// The device or MIG instance behind `handle`; null where it is neither.
  [[nodiscard]] Device* find(nvml::Device handle) const;
  /// As find(), but null also for a MIG instance.
  [[nodiscard]] Device* find_gpu(nvml::Device handle) const;
  /// As find(), but null also for a whole device.
  [[nodiscard]] Device* find_instance(nvml::Device handle) const;

 private:
  State* state_;
};

/// The handle of the device or instance at `place` in State::devices.
nvml::Device nvml_handle(std::size_t place);

/// Copies `text` and its final zero to `out`, which has `bytes`.
nvml::Return write_text(char* out, unsigned bytes, std::string_view text);

}  // namespace berth::sim
