// SPDX-License-Identifier: Apache-2.0
// What operator new holds at most during a call.
#pragma once

#include <cstddef>

namespace berth::test {

/// From its construction on: the most bytes that the calling thread held beyond what it held then.
class PeakMemory {
 public:
  PeakMemory();
  [[nodiscard]] std::size_t bytes() const;

 private:
  std::ptrdiff_t before_;
};

}  // namespace berth::test
