// SPDX-License-Identifier: Apache-2.0
#include "berth/error.hpp"

#include <string>

namespace berth {

void Error::raise() const {
  switch (code_) {
    case Errc::invalid_argument:
      throw InvalidArgument(what());
    case Errc::out_of_memory:
      throw OutOfMemory(what(), driver_code_);
    case Errc::not_supported:
      throw NotSupported(what(), driver_code_);
    case Errc::driver:
      throw DriverError(what(), driver_code_);
    case Errc::exhausted:
      throw Exhausted(what());
    case Errc::stream_captured:
      throw StreamCaptured(what());
    case Errc::cancelled:
      throw Cancelled(what());
    case Errc::file:
      throw FileError(what());
    case Errc::backend:
      throw BackendError(what(), driver_code_);
  }
  throw NotSupported(what(), driver_code_);  // a code of a later release
}

void detail::refuse_empty(const char* what) {
  throw InvalidArgument(std::string("the ") + what + " is empty; accepted: one that has a " + what);
}

}  // namespace berth
