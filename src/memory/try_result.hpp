// SPDX-License-Identifier: Apache-2.0
// Implements the `try_` variant of a throwing function.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "berth/error.hpp"

#include "base/quoted.hpp"

namespace berth {

/// Created in advance, because its copies need no memory.
inline const OutOfMemory kHostOutOfMemory{"the host is out of memory"};

/// An exception that is not an Error comes from the program's on_pressure callback.
inline Error failed_callback(const char* what) noexcept {
  try {
    return OutOfMemory(std::string("a callback of the program failed: ") + on_one_line(what));
  } catch (const std::bad_alloc&) {
    return kHostOutOfMemory;
  }
}

template <class T, class Function>
Result<T> try_result(const Function& function) noexcept {
  try {
    return function();
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return kHostOutOfMemory;
  } catch (const std::exception& error) {
    return failed_callback(error.what());
  } catch (...) {
    return failed_callback("it threw a non-standard exception");
  }
}

}  // namespace berth
