// SPDX-License-Identifier: Apache-2.0
#include "berth/error.hpp"

#include <string>
#include <string_view>

namespace berth {

Error::Error(Errc code, const std::string& message, int driver_code)
    : text_(message), code_(code), driver_code_(driver_code) {}

InvalidArgument::InvalidArgument(const std::string& message)
    : Error(Errc::invalid_argument, message), std::runtime_error(text()) {}

OutOfMemory::OutOfMemory(const std::string& message, int driver_code)
    : Error(Errc::out_of_memory, message, driver_code) {}

NotSupported::NotSupported(const std::string& message, int driver_code)
    : Error(Errc::not_supported, message, driver_code), std::runtime_error(text()) {}

DriverError::DriverError(const std::string& message, int driver_code)
    : Error(Errc::driver, message, driver_code), std::runtime_error(text()) {}

Exhausted::Exhausted(const std::string& message)
    : Error(Errc::exhausted, message), std::runtime_error(text()) {}

StreamCaptured::StreamCaptured(const std::string& message)
    : Error(Errc::stream_captured, message), std::runtime_error(text()) {}

Cancelled::Cancelled(const std::string& message)
    : Error(Errc::cancelled, message), std::runtime_error(text()) {}

FileError::FileError(const std::string& message)
    : Error(Errc::file, message), std::runtime_error(text()) {}

BackendError::BackendError(const std::string& message, int backend_code)
    : Error(Errc::backend, message, backend_code), std::runtime_error(text()) {}

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
  const bool begins_with_vowel = std::string_view("aeiou").find(what[0]) != std::string_view::npos;
  throw InvalidArgument(
      std::string("the ") + what +
      " object is empty: it was default-constructed, moved from or released; accepted: one that "
      "has a" +
      (begins_with_vowel ? "n " : " ") + what);
}

}  // namespace berth
