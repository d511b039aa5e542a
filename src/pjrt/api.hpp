// SPDX-License-Identifier: Apache-2.0
// The functions of one plug-in, with their errors as exceptions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "berth/error.hpp"

#include "pjrt/args_sizes.hpp"
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
  /// Null: there are none.
  [[nodiscard]] const Extension* extensions() const { return table_->extensions; }

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
  /// Returns the plug-in's error, which the caller owns. The members of `args` but struct_size are
  /// set; those that a plug-in does not know keep their values.
  /// Errors  NotSupported: the plug-in does not have the function. BackendError: it threw.
  template <class Args>
  [[nodiscard]] Error* try_call(const Function<Args>& function, Args& args) const {
    static_assert(sizeof(Args) + kGrowthBytes <= kArgsBytesMax);
    const std::size_t needed = kNeededBytes<Args>;
    return try_call({.slot = function.slot,
                     .name = function.name,
                     .address = find(function.slot),
                     .args_bytes = function.args_bytes,
                     .needed_bytes = needed == 0 ? function.args_bytes : needed,
                     .invoke =
                         [](const void* address, void* passed) {
                           return reinterpret_cast<Error* (*)(Args*)>(const_cast<void*>(address))(
                               static_cast<Args*>(passed));
                         }},
                    &args);
  }
  /// Calls a function that frees an object. An error is dropped.
  template <class Args>
  void destroy(const Function<Args>& function, Args args) const noexcept {
    try {
      drop(try_call(function, args));
    } catch (...) {  // NOLINT(bugprone-empty-catch): the object is lost
    }
  }

  /// The exception for an error of the plug-in, which it destroys.
  [[nodiscard]] std::exception_ptr exception_of(const char* function, Error* error) const noexcept;
  [[noreturn]] void raise(const char* function, Error* error) const;
  [[noreturn]] void raise_text(const char* function, Code code, std::string_view message) const;
  [[nodiscard]] Code code_of(const Error* error) const noexcept;
  void drop(Error* error) const noexcept;

  /// A number of this plug-in, from 0, and the plug-in of a number: null if there is none.
  [[nodiscard]] std::size_t number() const { return number_; }
  [[nodiscard]] static const Api* of_number(std::size_t number);
  /// The plug-in has reported an end twice. Whether it still uses memory is unknown from then on.
  void note_second_end() const noexcept { has_ended_twice_ = true; }
  /// Errors  BackendError: the plug-in has reported an end twice.
  void require_single_ends() const;

 private:
  Api(std::string path, const Table& table, std::size_t number);
  void check() const;
  /// Null if the table does not have the slot.
  [[nodiscard]] const void* find(std::size_t slot) const noexcept {
    const std::size_t offset = slot_offset(slot);
    if (offset + sizeof(void*) > table_->struct_size) return nullptr;
    const void* address = nullptr;
    std::memcpy(&address, reinterpret_cast<const char*>(table_) + offset, sizeof address);
    return address;
  }
  [[nodiscard]] bool is_newer() const { return minor_version() > kMinorKnown; }
  [[nodiscard]] Error* try_call(const ArgsCall& function, void* args) const;
  /// Once, with this size.
  [[nodiscard]] Error* call_once(const ArgsCall& function, void* args, std::size_t bytes) const;
  /// The same for a function of errors, which cannot refuse a size.
  template <class Args, class Result>
  [[nodiscard]] Error* call_of_errors(std::size_t slot, Args& args) const noexcept;
  [[nodiscard]] std::string_view text_of(const Error* error) const noexcept;
  [[noreturn]] void refuse_missing(const char* function) const;
  /// Only inside a catch block.
  [[noreturn]] void raise_thrown(const char* function) const;

  const std::string path_;
  const Table* const table_;
  const std::size_t number_;
  mutable ArgsSizes sizes_;
  mutable std::atomic<bool> has_ended_twice_ = false;
};

}  // namespace berth::pjrt
