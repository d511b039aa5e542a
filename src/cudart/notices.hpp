// SPDX-License-Identifier: Apache-2.0
// Lines on standard error that explain a failure beyond its error code.
#pragma once

#include <atomic>

#include "base/format.hpp"
#include "base/standard_error.hpp"

namespace berth::cudart {

/// Prints a line, unless `printed` is set, and sets it.
template <class... Arguments>
void notice_once(std::atomic<bool>& printed, fmt::format_string<Arguments...> text,
                 Arguments&&... arguments) {
  if (printed.exchange(true, std::memory_order_relaxed)) return;
  write_to_stderr(
      "berth's CUDA runtime: " + format_text(text, std::forward<Arguments>(arguments)...) + "\n");
}

}  // namespace berth::cudart
