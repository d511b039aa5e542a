// SPDX-License-Identifier: Apache-2.0
// Checks of what a plug-in gives with success: objects, lists and texts.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "pjrt/api.hpp"

namespace berth::pjrt {

/// Errors  BackendError: `function` gave `what`.
[[noreturn]] void refuse(const Api& api, const char* function, const std::string& what);
/// Errors  BackendError: what the plug-in should have given is null.
[[noreturn]] void refuse_nothing(const Api& api, const char* what);

/// Text up to this size, and lists up to this number of elements, are taken for real.
inline constexpr std::size_t kGivenMax = 65536;

/// Errors  BackendError: null, or a size that cannot be right.
[[nodiscard]] std::string_view require_text(const Api& api, const char* function, const char* text,
                                            std::size_t bytes);
void require_count(const Api& api, const char* function, bool is_null, std::size_t count);

template <class T>
[[nodiscard]] std::span<const T> require_list(const Api& api, const char* function, const T* first,
                                              std::size_t count) {
  require_count(api, function, first == nullptr, count);
  return {first, count};
}

/// Objects of the plug-in, none of which is null.
template <class T>
[[nodiscard]] std::span<T* const> require_objects(const Api& api, const char* function,
                                                  T* const* first, std::size_t count) {
  const std::span<T* const> objects = require_list(api, function, first, count);
  for (const T* const object : objects)
    if (object == nullptr) refuse(api, function, "a list with a null element");
  return objects;
}

}  // namespace berth::pjrt
