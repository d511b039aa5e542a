// SPDX-License-Identifier: Apache-2.0
#include "base/format.hpp"

#include <fmt/format.h>

namespace berth {

std::string format_values(fmt::string_view text, fmt::format_args values) {
  return fmt::vformat(text, values);
}

}  // namespace berth
