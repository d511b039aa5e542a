// SPDX-License-Identifier: Apache-2.0
// The functions of one plug-in, with their errors as exceptions.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "berth/device_backend.hpp"
#include "berth/pjrt.hpp"

#include "pjrt/pjrt_functions.hpp"

namespace berth::pjrt {

/// A plug-in that has been loaded, of a version that berth can use. Never destroyed, because a
/// plug-in is never unloaded.
/// Threads  Safe from any thread.
class Api {
 public:
  /// The same object for the same plug-in.
  /// Errors  As open_pjrt().
  static const Api& open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int minor_version() const { return table_->version.minor; }

  /// Whether the plug-in has the function.
  template <class Args>
  [[nodiscard]] bool has(const Function<Args>& function) const {
    return find(function.slot) != nullptr;
  }
  /// Errors  NotSupported: the plug-in does not have the function. What raise() throws.
  template <class Args>
  void call(const Function<Args>& function, Args& args) const {
    if (Error* error = try_call(function, args)) raise(function.name, error);
  }
  /// Returns the plug-in's error, which the caller owns.
  /// Errors  NotSupported: the plug-in does not have the function.
  template <class Args>
  [[nodiscard]] Error* try_call(const Function<Args>& function, Args& args) const {
    args.struct_size = function.args_bytes;
    return try_call_as_it_is(function, args);
  }
  /// The same, with the struct_size that `args` has.
  template <class Args>
  [[nodiscard]] Error* try_call_as_it_is(const Function<Args>& function, Args& args) const {
    const void* const address = find(function.slot);
    if (address == nullptr) refuse_missing(function.name);
    try {
      return reinterpret_cast<Error* (*)(Args*)>(const_cast<void*>(address))(&args);
    } catch (...) {  // C functions must not throw, but plug-ins in C++ may
      raise_thrown(function.name);
    }
  }
  /// Calls a function that frees an object. An error is dropped.
  template <class Args>
  void destroy(const Function<Args>& function, Args args) const noexcept {
    args.struct_size = function.args_bytes;
    const void* const address = find(function.slot);
    if (address == nullptr) return;
    drop(reinterpret_cast<Error* (*)(Args*)>(const_cast<void*>(address))(&args));
  }

  /// The exception for an error of the plug-in, which it destroys.
  [[nodiscard]] std::exception_ptr exception_of(const char* function, Error* error) const noexcept;
  [[noreturn]] void raise(const char* function, Error* error) const;
  [[nodiscard]] Code code_of(const Error* error) const;
  void drop(Error* error) const noexcept;

  /// Calls `done` when the event is ready, and destroys it. Null: an error of the plug-in. If the
  /// plug-in does not call back, this waits: `done` means that the operation is over.
  void when_ready(const char* function, Event* event, DeviceBackend::Done done) const noexcept;
  /// Whether await() will not wait. False also if the plug-in does not say.
  [[nodiscard]] bool is_ready(Event* event) const noexcept;
  /// Waits, and destroys the event. Returns its failure.
  [[nodiscard]] std::exception_ptr await(const char* function, Event* event) const noexcept;

  struct Waiter;

 private:
  Api(std::string path, const Table& table);
  void check() const;
  /// Whether the plug-in will call back.
  bool call_when_ready(Waiter* waiter) const noexcept;
  /// Null if the table does not have the slot.
  [[nodiscard]] const void* find(std::size_t slot) const noexcept {
    const std::size_t offset = slot_offset(slot);
    if (offset + sizeof(void*) > table_->struct_size) return nullptr;
    const void* address = nullptr;
    std::memcpy(&address, reinterpret_cast<const char*>(table_) + offset, sizeof address);
    return address;
  }
  [[noreturn]] void refuse_missing(const char* function) const;
  /// Only inside a catch block.
  [[noreturn]] void raise_thrown(const char* function) const;
  [[noreturn]] void raise_text(const char* function, Code code, std::string_view message) const;

  const std::string path_;
  const Table* const table_;
};

/// A named value and its storage, which exist as long as the option.
[[nodiscard]] NamedValue to_named_value(const PjrtOption& option);
/// Errors  NotSupported: a type of value that berth does not know.
[[nodiscard]] DeviceAttribute to_attribute(const NamedValue& value);

}  // namespace berth::pjrt
