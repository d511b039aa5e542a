// SPDX-License-Identifier: Apache-2.0
#include "base/env.hpp"

#include <cstdlib>

namespace berth {

namespace {

std::optional<std::string> copy_of(const char* value) {
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

}  // namespace

std::optional<std::string> env(const char* name) {
  return copy_of(std::getenv(name));
}

std::optional<std::string> trusted_env(const char* name) {
  return copy_of(secure_getenv(name));
}

}  // namespace berth
