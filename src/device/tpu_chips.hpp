// SPDX-License-Identifier: Apache-2.0
// The TPU chips of the machine as the kernel lists them, hidden ones too.
#pragma once

#include <string>

namespace berth {

/// Number of TPU chips on the PCI bus; their numbers are from 0. `root` has a folder for each
/// device, with the files `vendor` and `device`. 0 also if there is no such folder.
[[nodiscard]] int count_tpu_chips(const std::string& root);

}  // namespace berth
