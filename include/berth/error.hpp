// SPDX-License-Identifier: Apache-2.0
// Failures as exceptions and as values. A failed operation throws a subclass of Error. For callers
// that expect failures, a `try_` variant returns Result<T> and never throws. A message is one line:
// the request, the problem, and the accepted values or the remedy.
#pragma once

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "berth/cpp20.hpp"
#include "berth/export.h"

namespace berth {

/// The kind of an Error.
enum class Errc {
  invalid_argument,  ///< the caller named something that does not exist or is not accepted
  out_of_memory,     ///< every rung of the out-of-memory ladder failed
  not_supported,     ///< the device or driver does not support it
  driver,            ///< a driver call failed; driver_code() has its code
  exhausted,         ///< a bounded pool has reached its bound, and all of it is on lease
  stream_captured,   ///< refused during a capture, because it would break the capture
  cancelled,         ///< another call ended the operation early
  file,              ///< a file cannot be opened, read or written
  backend,           ///< a call of a DeviceBackend failed; driver_code() has its code
};

/// The base of every exception of berth: a code, a message, and the driver's own code. Catch it to
/// handle all failures of berth, or a subclass to handle one cause.
///
/// berth throws only subclasses. Each of them also derives from a standard exception: OutOfMemory
/// from std::bad_alloc, all others from std::runtime_error. Error itself does not, so that a
/// handler of std::exception is never ambiguous. A handler of std::bad_alloc also catches
/// OutOfMemory: to catch only failures of operator new, handle Error before it. If operator new
/// fails inside berth, the call throws std::bad_alloc itself and no Error; the state is as after
/// any other failure of that call.
///
/// An Error is a value, which a Result holds. Copying it allocates no memory and does not throw.
class BERTH_API Error {
 public:
  Error(Errc code, const std::string& message, int driver_code = 0);
  virtual ~Error() = default;
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;

  [[nodiscard]] Errc code() const noexcept { return code_; }
  /// The CUresult of the failed driver call; of Errc::backend the code of the backend. 0
  /// (CUDA_SUCCESS) if no call failed.
  [[nodiscard]] int driver_code() const noexcept { return driver_code_; }
  /// The message.
  [[nodiscard]] virtual const char* what() const noexcept { return text_.what(); }

  /// Throws *this as the subclass that code() names, so that a Result rethrows the original type.
  [[noreturn]] void raise() const;

 protected:
  /// The message, for the standard exception base: the two share the text.
  [[nodiscard]] const std::runtime_error& text() const noexcept { return text_; }

 private:
  std::runtime_error text_;  ///< a string whose copies share memory and do not throw
  Errc code_;
  int driver_code_;
};

/// The message says what is wrong with the argument, and which values are accepted.
class BERTH_API InvalidArgument : public Error, public std::runtime_error {
 public:
  explicit InvalidArgument(const std::string& message);
  [[nodiscard]] const char* what() const noexcept override { return Error::what(); }
};

/// The message contains every number that explains the failure: requested, limit, live, cached,
/// pending, free.
class BERTH_API OutOfMemory : public Error, public std::bad_alloc {
 public:
  explicit OutOfMemory(const std::string& message, int driver_code = 0);
  [[nodiscard]] const char* what() const noexcept override { return Error::what(); }
};

/// The message names the feature that the device, the driver or a forked child does not support.
class BERTH_API NotSupported : public Error, public std::runtime_error {
 public:
  explicit NotSupported(const std::string& message, int driver_code = 0);
  [[nodiscard]] const char* what() const noexcept override { return Error::what(); }
};

/// The message contains the driver function, and the driver's own name and text for its code.
class BERTH_API DriverError : public Error, public std::runtime_error {
 public:
  DriverError(const std::string& message, int driver_code);
  [[nodiscard]] const char* what() const noexcept override { return Error::what(); }
};

/// The message names the pool, its bound, and the option that sets the bound; or the purpose of a
/// thread that the system did not start.
class BERTH_API Exhausted : public Error, public std::runtime_error {
 public:
  explicit Exhausted(const std::string& message);
  [[nodiscard]] const char* what() const noexcept override { return Error::what(); }
};

/// Refused before the driver was called, so the capture is still valid.
class BERTH_API StreamCaptured : public Error, public std::runtime_error {
 public:
  explicit StreamCaptured(const std::string& message);
  [[nodiscard]] const char* what() const noexcept override { return Error::what(); }
};

/// The operation was cancelled.
class BERTH_API Cancelled : public Error, public std::runtime_error {
 public:
  explicit Cancelled(const std::string& message);
  [[nodiscard]] const char* what() const noexcept override { return Error::what(); }
};

/// The message contains the file, the operation, and the system's error text or the end of the
/// file.
class BERTH_API FileError : public Error, public std::runtime_error {
 public:
  explicit FileError(const std::string& message);
  [[nodiscard]] const char* what() const noexcept override { return Error::what(); }
};

/// A call of a DeviceBackend failed. The message contains the backend, the function, and the
/// backend's own name and text for its code.
class BERTH_API BackendError : public Error, public std::runtime_error {
 public:
  BackendError(const std::string& message, int backend_code);
  [[nodiscard]] const char* what() const noexcept override { return Error::what(); }
};

/// A T, or the Error that occurred instead.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: likewise

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  /// Returns the value; throws the error if there is none.
  T& value() & {
    if (!ok()) error().raise();
    return *std::get_if<0>(&state_);
  }
  T&& value() && { return std::move(this->value()); }
  /// Returns the error. Requires !ok().
  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

namespace detail {
/// Throws for an empty owner or lease of a `what`.
/// Errors  InvalidArgument.
[[noreturn]] BERTH_API void refuse_empty(const char* what);
}  // namespace detail

}  // namespace berth
