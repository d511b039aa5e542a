// SPDX-License-Identifier: Apache-2.0
// The environment variables by which the software of other accelerators selects devices, as
// CUDA_VISIBLE_DEVICES selects those of CUDA. That software applies them; berth only names them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "berth/device_backend.hpp"

namespace berth {

/// The variables that are set, with their text, as attributes of the devices. `type` and `backend`
/// are the names of a device type and of its backend, which may say whose devices they are; empty
/// if they do not.
std::vector<DeviceAttribute> visible_variables(std::string_view type, std::string_view backend);
/// Whether these names are those of TPUs.
bool is_tpu(std::string_view type, std::string_view backend);
/// `TPU_VISIBLE_CHIPS="0,1"`.
std::string variable_text(const DeviceAttribute& variable);

}  // namespace berth
