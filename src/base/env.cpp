// SPDX-License-Identifier: Apache-2.0
#include "base/env.hpp"

#include <cstdlib>

namespace berth {

std::optional<std::string> env(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

}  // namespace berth
