// SPDX-License-Identifier: Apache-2.0
// Implements the `try_` variant of a throwing function.
#pragma once

#include "berth/error.hpp"

namespace berth {

/// The exception that is being handled, as an Error. One that is neither an Error nor
/// std::bad_alloc comes from the program's on_pressure callback.
Error current_failure() noexcept;

template <class T, class Function>
Result<T> try_result(const Function& function) noexcept {
  try {
    return function();
  } catch (...) {
    return current_failure();
  }
}

}  // namespace berth
