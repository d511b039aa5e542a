// SPDX-License-Identifier: Apache-2.0
// A berth_allocator is an Allocator under another name. The object's own type determines its kind.
// All kinds are final, so a comparison of types suffices, and is cheaper than a dynamic_cast.
#pragma once

#include <cstddef>
#include <functional>
#include <typeinfo>

#include "capi/capi_convert.hpp"

namespace berth::capi {

inline berth_allocator* from_allocator(Allocator& allocator) noexcept {
  return reinterpret_cast<berth_allocator*>(&allocator);
}

inline Allocator& to_allocator(berth_allocator* allocator, const char* parameter = "allocator") {
  return reinterpret_cast<Allocator&>(require(allocator, parameter));
}

/// The allocator as a `Kind`; null if it is of another kind.
template <class Kind>
Kind* as_kind(Allocator& any) noexcept {
  return typeid(any) == typeid(Kind) ? static_cast<Kind*>(&any) : nullptr;
}

/// null for null.
inline std::function<bool(std::size_t)> to_pressure(berth_pressure_function on_pressure,
                                                    void* user) {
  if (on_pressure == nullptr) return nullptr;
  return [=](std::size_t bytes_needed) { return on_pressure(user, bytes_needed); };
}

}  // namespace berth::capi
