// SPDX-License-Identifier: Apache-2.0
// Which programs and libraries have NVIDIA's CUDA runtime in them.
#pragma once

#include <string>

namespace berth::tool {

/// Whether `file` does, by a text that every form of the runtime has. Other libraries ask the
/// driver for the same private tables, and do without them. A file that cannot be read counts.
bool has_runtime_inside(const std::string& file);

}  // namespace berth::tool
