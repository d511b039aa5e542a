// SPDX-License-Identifier: Apache-2.0
// A library that may be a plug-in.
#pragma once

#include <optional>
#include <set>
#include <string>

namespace berth::pjrt {

/// A library, loaded. The destructor unloads it again, unless it is kept, or a thread has started
/// in the process meanwhile: that may be a thread of the library, whose code must stay. What else
/// a library leaves behind as it is loaded, such as a signal handler, is not known: berth unloads
/// only libraries of which it has called no function but GetPjrtApi().
class Library {
 public:
  /// Errors  InvalidArgument: it cannot be loaded.
  explicit Library(const std::string& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Null: it does not have the function.
  [[nodiscard]] void* find(const char* function) const noexcept;
  /// Forever, because plug-ins have threads and exit handlers.
  void keep() noexcept { is_kept_ = true; }

 private:
  using Threads = std::set<std::string>;
  /// The threads of this process; nullopt: unknown.
  static std::optional<Threads> list_threads() noexcept;
  [[nodiscard]] bool has_new_thread() const noexcept;

  const std::optional<Threads> threads_before_;
  void* handle_;
  bool is_kept_ = false;
};

}  // namespace berth::pjrt
