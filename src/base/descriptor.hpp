// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unistd.h>
#include <utility>

namespace berth {

/// Owns a file descriptor; -1 if empty.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) noexcept : number_(number) {}
  ~Descriptor() {
    if (is_open()) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  /// Gives up ownership.
  [[nodiscard]] int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// Why no descriptor can be opened: "this process has no file descriptor left (EMFILE): all 1024
/// that it may have (RLIMIT_NOFILE) are open". Empty if one can.
std::string descriptor_shortage();

}  // namespace berth
