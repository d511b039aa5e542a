// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace berth {

/// A range of a heap's addresses.
struct HeapExtent {
  [[nodiscard]] std::uintptr_t end() const { return address + bytes; }
  friend bool operator==(const HeapExtent&, const HeapExtent&) = default;

  std::uintptr_t address;
  std::size_t bytes;
};

}  // namespace berth
