// SPDX-License-Identifier: Apache-2.0
// A DeviceAllocator with checks: every operation is checked by separate bookkeeping and by the
// allocator's validate().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

#include "berth/device_allocator.hpp"

namespace berth::tool {

/// The problem, in one line.
struct CheckFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class CheckedAllocator {
 public:
  /// `allocator` must have no live blocks and no other users.
  explicit CheckedAllocator(DeviceAllocator& allocator) : allocator_(allocator) {}

  // As DeviceAllocator.
  // Errors  CheckFailure as well.
  void* allocate_raw(std::size_t bytes, StreamRef stream);
  void deallocate(void* data);

  /// Compares the counters, the blocks and the numbers of this class. Takes a snapshot; called
  /// automatically after every 256 operations.
  void check_sums() const;

 private:
  void check_block(std::uintptr_t address, std::size_t bytes) const;
  void check_operation();
  [[noreturn]] void fail(const std::string& problem) const;

  DeviceAllocator& allocator_;
  std::map<std::uintptr_t, std::size_t> bytes_by_address_;
  std::uint64_t bytes_live_ = 0;
  std::uint64_t operations_ = 0;
};

}  // namespace berth::tool
