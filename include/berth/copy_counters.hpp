// SPDX-License-Identifier: Apache-2.0
// The copies of a Copier so far, by path.
#pragma once

#include <cstdint>

#include "berth/cpp20.hpp"

namespace berth {

struct CopyCounters {
  /// Pinned or device memory on both sides. The copies of a batch that are made the same way count
  /// as one.
  std::uint64_t copies_direct = 0;
  std::uint64_t copies_staged = 0;  ///< through staging memory
  /// Copies of pageable memory and files by the driver; also direct copies of pageable memory by
  /// devices that use the host's page tables.
  std::uint64_t copies_by_driver = 0;
  std::uint64_t copies_host = 0;   ///< host to host
  std::uint64_t bytes_copied = 0;  ///< by all of the copies above
  /// The number of waits of copy_async() for a device until a source had been read.
  std::uint64_t staging_waits = 0;
  /// Bytes of staging memory that copies hold now, also beyond CopierOptions::staging_slots.
  std::uint64_t staging_bytes = 0;
};

}  // namespace berth
