// SPDX-License-Identifier: Apache-2.0
// Makes the `try_` twin of a function that throws.
#pragma once

#include <new>

#include "berth/error.hpp"

namespace berth {

template <class T, class Function>
Result<T> try_result(const Function& function) noexcept {
  try {
    return function();
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return OutOfMemory("the host is out of memory");
  }
}

}  // namespace berth
