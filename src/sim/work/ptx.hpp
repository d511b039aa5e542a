// SPDX-License-Identifier: Apache-2.0
// The kernels that PTX declares, with their parameters.
// Source: PTX ISA, "Kernel Function Directives: .entry", "Kernel Function Parameters".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace berth::sim {

struct KernelParameter {
  std::size_t offset;
  std::size_t bytes;
};

struct PtxKernel {
  std::string name;
  std::vector<KernelParameter> parameters;
};

/// In the order of the text, without comments. A declaration of a kernel that is defined later
/// counts once.
std::vector<PtxKernel> read_kernels(std::string_view ptx);

}  // namespace berth::sim
