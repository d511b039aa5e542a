// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace berth {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "berth: %s:%d: invariant broken: %s\n", file, line, condition);
  std::abort();
}

void stop_for_mistake(const char* mistake) noexcept {
  std::fprintf(stderr, "berth: the program is stopped because of its mistake: %s\n", mistake);
  std::abort();
}

}  // namespace berth
