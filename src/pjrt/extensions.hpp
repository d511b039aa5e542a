// SPDX-License-Identifier: Apache-2.0
// The extensions of the ABI that a plug-in has. berth uses none of them, and only names them.
#pragma once

#include <string>

#include "pjrt/pjrt_abi.hpp"

namespace berth::pjrt {

struct ExtensionNames {
  std::string names;    ///< in the order of the plug-in, separated by spaces
  std::string problem;  ///< why the list ends early; empty: it does not
};

/// A list that never ends, or has a node that cannot be right, ends there.
/// Errors  std::bad_alloc.
[[nodiscard]] ExtensionNames read_extensions(const Extension* first);

}  // namespace berth::pjrt
