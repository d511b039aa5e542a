// SPDX-License-Identifier: Apache-2.0
#include "base/counted.hpp"

namespace berth {

std::string counted(std::uint64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace berth
