// SPDX-License-Identifier: Apache-2.0
// The reasons why devices of backends are visible or not: the devices that a backend shows,
// compared with the environment variables that select them. The software of the devices applies
// the variables; berth explains the result.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "berth/device_registry.hpp"

#include "device/backend_table.hpp"

namespace berth {

/// What is known about the devices of one type.
struct BackendView {
  std::string type;                        ///< "tpu"
  std::vector<DeviceAttribute> variables;  ///< of visible_variables()
  std::vector<DeviceDescription> devices;  ///< by ordinal
  /// Whether TPU_VISIBLE_CHIPS selects them. The attribute `local_hardware_id` is taken for the
  /// chip then, which was not verified on a TPU, unless the devices contradict it.
  bool is_tpu = false;
  int chips = 0;       ///< of the machine; 0: unknown
  bool fails = false;  ///< the backend could not be created
};

/// The chips that a list such as "2,3" names; nullopt: no such list.
[[nodiscard]] std::optional<std::vector<int>> read_chips(std::string_view text);

/// One sentence for each device, followed by one for each known chip without a device.
/// Chips are not named where a chip has several devices, or the plug-in may have its own numbers.
[[nodiscard]] std::vector<DeviceExplanation> explain_view(const BackendView& view);

/// The same for a type with a backend, or, if `backend` is null, with a reason why it has none.
/// Nothing without both.
[[nodiscard]] std::vector<DeviceExplanation> explain_backend(DeviceType type,
                                                             const RegisteredBackend* backend,
                                                             const std::string& problem);

}  // namespace berth
