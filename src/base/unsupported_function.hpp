// SPDX-License-Identifier: Apache-2.0
// Functions that a look-alike exports because programs link them, and that only fail: each prints
// its name once on standard error. They read no arguments, so one type serves for all.
#pragma once

#include <atomic>
#include <string_view>

#include "base/format.hpp"
#include "base/standard_error.hpp"

namespace berth {

/// Prints the line, unless `named` is set, and sets it.
inline void name_unsupported(std::atomic<bool>& named, std::string_view library,
                             std::string_view symbol, std::string_view error) {
  if (named.exchange(true, std::memory_order_relaxed)) return;
  write_to_stderr(
      format_text("{}: {} is not supported: it fails with {}\n", library, symbol, error));
}

}  // namespace berth

/// Defines `function` with C linkage. `refuse` gets whether it has been named, and its name, and
/// returns `result`. `linkage` is BERTH_API, or empty.
#define BERTH_DEFINE_UNSUPPORTED(linkage, result, function, symbol, refuse) \
  extern "C" linkage result function();                                     \
  extern "C" result function() {                                            \
    static std::atomic<bool> named = false;                                 \
    return refuse(named, symbol);                                           \
  }
