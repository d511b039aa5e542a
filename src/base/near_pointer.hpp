// SPDX-License-Identifier: Apache-2.0
// A pointer of half the size, for records within 8 GiB of each other that do not move: the distance
// of the target from the pointer.
#pragma once

#include <cstdint>

#include "base/check.hpp"

namespace berth {

/// Trivial, so that a union may hold it; {} is null.
/// Threads  As a raw pointer.
template <class T>
class NearPointer {
 public:
  NearPointer() = default;
  NearPointer(const NearPointer&) = delete;
  NearPointer& operator=(const NearPointer& other) {
    set(other.get());
    return *this;
  }
  ~NearPointer() = default;

  [[nodiscard]] T* get() const {
    if (distance_ == 0) return nullptr;
    const auto self = reinterpret_cast<std::intptr_t>(this);
    return reinterpret_cast<T*>(self + (std::intptr_t{distance_} << kUnitBits));
  }
  void set(T* target) {
    const auto self = reinterpret_cast<std::intptr_t>(this);
    const std::intptr_t distance =
        target == nullptr ? 0 : (reinterpret_cast<std::intptr_t>(target) - self) >> kUnitBits;
    distance_ = static_cast<std::int32_t>(distance);
    BERTH_DCHECK(get() == target);
  }

  NearPointer& operator=(T* target) {
    set(target);
    return *this;
  }
  operator T*() const { return get(); }  // NOLINT: serves as the pointer that it stands for
  T* operator->() const { return get(); }

 private:
  static constexpr int kUnitBits = 2;  ///< its own alignment, and its target's at least
  std::int32_t distance_;
};

}  // namespace berth
