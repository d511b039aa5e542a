// SPDX-License-Identifier: Apache-2.0
#include "base/demangled.hpp"

#include <cstdlib>
#include <cxxabi.h>
#include <memory>

namespace berth {

// Without the prefix, "f" would be a type: float.
std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return "";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> whole(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return whole == nullptr ? "" : whole.get();
}

}  // namespace berth
