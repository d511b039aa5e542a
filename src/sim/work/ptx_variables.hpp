// SPDX-License-Identifier: Apache-2.0
// The variables that PTX defines in the global and the constant space.
// Source: PTX ISA, "Variables", "Initializers", "State Spaces".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace berth::sim {

struct ImageVariable {
  std::string name;
  std::size_t bytes;
  bool is_managed;
  /// The beginning of its initial value; zeros follow.
  std::vector<std::byte> value;
  bool is_value_known;  ///< false for an address, a decimal fraction, or rows in braces
};

/// In the order of the text. A declaration of a variable that another module defines (.extern) does
/// not count.
std::vector<ImageVariable> read_variables(std::string_view ptx);

}  // namespace berth::sim
