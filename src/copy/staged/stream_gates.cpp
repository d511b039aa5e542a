// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/stream_gates.hpp"

#include <chrono>
#include <iterator>
#include <optional>
#include <string>

#include "base/check.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "device/device_context.hpp"

namespace berth {
namespace {

/// Each call that submits work returns when the work is done, so gates only cost time.
/// Source: CUDA Programming Guide, "CUDA Environment Variables".
bool launches_block() {
  const std::optional<std::string> value = env("CUDA_LAUNCH_BLOCKING");
  return value && !value->empty() && *value != "0";
}

/// A call that waits for something else, such as room in a full queue, rarely returns just behind
/// each of three different times.
constexpr std::chrono::milliseconds kPatience[] = {
    std::chrono::milliseconds{10}, std::chrono::milliseconds{20}, std::chrono::milliseconds{40}};

bool may_have_gates(DeviceContext& context, CopyGates gates) {
  if (gates == CopyGates::off) return false;
  const Driver& driver = context.driver();
  if (!driver.has(DriverCall::stream_wait_value32) || !driver.has(DriverCall::stream_write_value32))
    return false;
  return gates == CopyGates::on ||
         (!launches_block() && context.host_reach().has_memory_operations);
}

}  // namespace

StreamGates::StreamGates(DeviceContext& context, CopyGates gates)
    : context_(context),
      are_available_(may_have_gates(context, gates)),
      wants_trial_(gates == CopyGates::automatic) {}

std::optional<GateTrial> StreamGates::begin_trial() {
  if (!wants_trial_.load(std::memory_order_relaxed)) return std::nullopt;
  const MutexLock lock(mutex_);
  if (is_on_trial_ || !wants_trial_) return std::nullopt;
  is_on_trial_ = true;
  BERTH_CHECK(blocked_ < std::size(kPatience));
  return GateTrial(kPatience[blocked_]);
}

void StreamGates::end_trial(GateTrial::Result result) noexcept {
  {
    const MutexLock lock(mutex_);
    BERTH_CHECK(is_on_trial_);
    is_on_trial_ = false;
    blocked_ = result == GateTrial::Result::blocked ? blocked_ + 1 : 0;
    const bool is_disabled = blocked_ == std::size(kPatience);
    if (result == GateTrial::Result::accepted || is_disabled) wants_trial_ = false;
    if (!is_disabled) return;
    disable();
  }
  context_.driver().report(Severity::warning, [&] {
    return format_text(
        "{}: a call that submits a gate returns only when the gate is open, as under a tool that "
        "completes each call before the next. The driver copies pageable memory from now on "
        "(copy_gates)",
        context_.device().to_string());
  });
}

}  // namespace berth
