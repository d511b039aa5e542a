// SPDX-License-Identifier: Apache-2.0
#include "copy/staged/stream_gates.hpp"

#include <optional>
#include <string>

#include "base/env.hpp"
#include "device/device_context.hpp"

namespace berth {
namespace {

/// Each call that submits work returns when the work is done, so a copy behind a gate would never
/// return.
/// Source: CUDA Programming Guide, "CUDA Environment Variables".
bool launches_block() {
  const std::optional<std::string> value = env("CUDA_LAUNCH_BLOCKING");
  return value && !value->empty() && *value != "0";
}

/// No attribute reports 32-bit waits alone: a device that supports neither the newer nor the older
/// operations has none. An attribute that cannot be queried denies nothing; the driver may still
/// reject the first gate.
bool denies_memory_operations(const DeviceContext& context) {
  const auto denies = [&](CUdevice_attribute attribute) {
    int value = 0;
    const CUresult result =
        context.driver().try_device_get_attribute(&value, attribute, context.native());
    return result == CUDA_SUCCESS && value == 0;
  };
  return denies(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) &&
         denies(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1);
}

bool may_have_gates(const DeviceContext& context, CopyGates gates) {
  if (gates == CopyGates::off) return false;
  const Driver& driver = context.driver();
  if (!driver.has(DriverCall::stream_wait_value32) || !driver.has(DriverCall::stream_write_value32))
    return false;
  return gates == CopyGates::on || (!launches_block() && !denies_memory_operations(context));
}

}  // namespace

StreamGates::StreamGates(DeviceContext& context, CopyGates gates)
    : are_available_(may_have_gates(context, gates)) {}

}  // namespace berth
