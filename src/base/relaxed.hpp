// SPDX-License-Identifier: Apache-2.0
// A value that one thread may read while another writes it, if neither depends on the order: an
// atomic without fences, at the cost of a plain variable.
#pragma once

#include <atomic>

namespace berth {

/// Threads  Safe from any thread, without order.
template <class T>
class Relaxed {
 public:
  Relaxed(T value) : value_(value) {}  // NOLINT: stands for the value
  Relaxed(const Relaxed& other) : Relaxed(T{other}) {}
  Relaxed& operator=(T value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  Relaxed& operator=(const Relaxed& other) { return *this = T{other}; }
  ~Relaxed() = default;

  operator T() const { return value_.load(std::memory_order_relaxed); }  // NOLINT: likewise

 private:
  std::atomic<T> value_;
};

}  // namespace berth
