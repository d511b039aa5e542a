// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/nvml_call.hpp"

#include <cstring>

namespace berth::sim {
namespace {

/// A handle is this value plus an index: no valid address, no other handle, and not negative.
constexpr std::uint64_t kHandleBase = std::uint64_t{0xF} << 59;

}  // namespace

NvmlCall::NvmlCall() {
  mutex.lock();
  state_ = installed_state();
  if (state_ != nullptr && state_->nvml_users == 0) state_ = nullptr;
}

Device* NvmlCall::find(nvml::Device handle) const {
  const std::uint64_t place = reinterpret_cast<std::uint64_t>(handle) - kHandleBase;
  return place < state_->devices.size() ? &state_->devices[place] : nullptr;
}

Device* NvmlCall::find_gpu(nvml::Device handle) const {
  Device* found = find(handle);
  return found != nullptr && !found->facts.mig ? found : nullptr;
}

Device* NvmlCall::find_instance(nvml::Device handle) const {
  Device* found = find(handle);
  return found != nullptr && found->facts.mig ? found : nullptr;
}

nvml::Device nvml_handle(std::size_t place) {
  return reinterpret_cast<nvml::Device>(kHandleBase + place);
}

nvml::Return write_text(char* out, unsigned bytes, std::string_view text) {
  if (out == nullptr) return nvml::kInvalidArgument;
  if (bytes <= text.size()) return nvml::kInsufficientSize;
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return nvml::kSuccess;
}

}  // namespace berth::sim
