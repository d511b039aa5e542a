// SPDX-License-Identifier: Apache-2.0
// A DeviceAllocator that is not believed: every operation is checked by bookkeeping of its own and
// by the allocator's validate().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

#include "berth/device_allocator.hpp"

namespace berth::tool {

/// What was found wrong, in one line.
struct CheckFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class CheckedAllocator {
 public:
  /// Nothing of `allocator` may be live, and nobody else may use it.
  explicit CheckedAllocator(DeviceAllocator& allocator) : allocator_(allocator) {}

  // As DeviceAllocator. Errors  CheckFailure as well.
  void* allocate_raw(std::size_t bytes, StreamRef stream);
  void deallocate(void* data);

  /// Compares counters, blocks and what this class counted. Costs a snapshot; made by itself after
  /// every 256 operations.
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
