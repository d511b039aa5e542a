// SPDX-License-Identifier: Apache-2.0
// The common beginning of NVML calls, and device handles. NVML sees every physical device in order
// of PCI address, regardless of CUDA_VISIBLE_DEVICES, and the MIG instances.
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

  /// The result that the call must return at once; kSuccess if NVML is initialized.
  [[nodiscard]] nvml::Return refusal() const {
    return state_ == nullptr ? nvml::kUninitialized : nvml::kSuccess;
  }
  [[nodiscard]] State& state() const { return *state_; }

  /// The device or MIG instance of `handle`; null if it is invalid.
  [[nodiscard]] Device* find(nvml::Device handle) const;
  /// The same as find(), but null for a MIG instance.
  [[nodiscard]] Device* find_gpu(nvml::Device handle) const;
  /// The same as find(), but null for a whole device.
  [[nodiscard]] Device* find_instance(nvml::Device handle) const;

 private:
  State* state_;
};

/// The handle of the device or instance at index `place` of State::devices.
nvml::Device nvml_handle(std::size_t place);

/// Copies `text` and a terminating zero to `out`, which has `bytes`.
nvml::Return write_text(char* out, unsigned bytes, std::string_view text);

}  // namespace berth::sim
