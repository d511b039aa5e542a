// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/stream_gates.hpp"

#include <optional>
#include <string>

#include "base/env.hpp"
#include "device/device_context.hpp"

namespace berth {
namespace {

/// Each call that submits work returns when the work is done, so gates only cost time.
/// Source: CUDA Programming Guide, "CUDA Environment Variables".
bool launches_block() {
  const std::optional<std::string> value = env("CUDA_LAUNCH_BLOCKING");
  return value && !value->empty() && *value != "0";
}

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
    : are_available_(may_have_gates(context, gates)) {}

}  // namespace berth
