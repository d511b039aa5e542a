// SPDX-License-Identifier: Apache-2.0
// What a Copier has copied so far, and which way.
#pragma once

#include <cstdint>

#include "berth/cpp20.hpp"

namespace berth {

struct CopyCounters {
  /// Pinned or device memory on both sides. Of a batch all that goes the same way counts as one.
  std::uint64_t copies_direct = 0;
  std::uint64_t copies_staged = 0;  ///< through staging memory
  /// Of pageable memory and files, by the driver's own means; also direct copies of pageable memory
  /// by devices that use the host's page tables.
  std::uint64_t copies_by_driver = 0;
  std::uint64_t copies_host = 0;   ///< host to host
  std::uint64_t bytes_copied = 0;  ///< of all of them
  /// Times that copy_async() waited for a device until a source had been read.
  std::uint64_t staging_waits = 0;
  /// Staging memory that copies hold now: what CopierOptions::staging_slots bounds.
  std::uint64_t staging_bytes = 0;
};

}  // namespace berth
