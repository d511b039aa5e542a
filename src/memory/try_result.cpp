// SPDX-License-Identifier: Apache-2.0
#include "memory/try_result.hpp"

#include <exception>
#include <new>
#include <string>

#include "base/quoted.hpp"

namespace berth {
namespace {

/// Created in advance, because its copies need no memory.
const OutOfMemory kHostOutOfMemory{"the host is out of memory"};

Error failed_callback(const char* what) noexcept {
  try {
    return OutOfMemory(std::string("a callback of the program failed: ") + on_one_line(what));
  } catch (const std::bad_alloc&) {
    return kHostOutOfMemory;
  }
}

}  // namespace

Error current_failure() noexcept {
  try {
    throw;
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
