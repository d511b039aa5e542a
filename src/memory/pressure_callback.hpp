// SPDX-License-Identifier: Apache-2.0
// The program's callback for memory pressure. The callback is not called recursively: allocations
// within it, from any pool that shares the callback, do not call it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace berth {

using PressureCallback = std::function<bool(std::size_t bytes_missing)>;

/// Returns a callback that returns false if it is called recursively; null for null.
inline PressureCallback non_reentrant(PressureCallback callback) {
  if (callback == nullptr) return nullptr;
  /// The state of the calling thread.
  struct Running {
    const void* callback;
    const Running* outer;
  };
  static thread_local const Running* running = nullptr;
  struct Scope {
    explicit Scope(const void* callback) : here{callback, running} { running = &here; }
    ~Scope() { running = here.outer; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    const Running here;
  };
  const auto shared = std::make_shared<const PressureCallback>(std::move(callback));
  return [shared](std::size_t bytes_missing) {
    for (const Running* each = running; each != nullptr; each = each->outer) {
      if (each->callback == shared.get()) return false;
    }
    const Scope scope(shared.get());
    return (*shared)(bytes_missing);
  };
}

}  // namespace berth
