// SPDX-License-Identifier: Apache-2.0
// Host memory that the devices of a backend read and write themselves.
#pragma once

#include <cstddef>
#include <memory>

#include "berth/cpp20.hpp"
#include "berth/export.h"

namespace berth {

class HostMappingState;

/// The owner of one mapping of DeviceBuffers::map_host_memory(). Empty if default-constructed or
/// moved from.
///
/// Lifetime  The destructor ends the mapping; a failure goes to the report sink. The Runtime's
///           destructor ends mappings that still exist. The memory must exist until its mapping has
///           ended: a block of Runtime::pinned_memory() or host_memory() that is freed earlier
///           stays mapped for the next user of the memory, and cannot be mapped again. If its
///           allocator returns mapped memory to the system, devices may continue to use its former
///           pages, even if other memory is at these addresses later: the content of transfers of
///           these addresses is undefined.
/// Blocking  The destructor waits for the operations of transfers that began on the mapped memory.
///           Operations that began before map_host_memory() returned do not use the mapping, and
///           are not waited for. A transfer of the memory that starts while the mapping ends waits.
/// Threads   One object from one thread at a time.
/// Fork      In a child made by fork(), the destructor has no effect.
class BERTH_API HostMapping {
 public:
  HostMapping() noexcept;
  ~HostMapping();
  HostMapping(HostMapping&&) noexcept;
  HostMapping& operator=(HostMapping&&) noexcept;
  HostMapping(const HostMapping&) = delete;
  HostMapping& operator=(const HostMapping&) = delete;

  explicit operator bool() const noexcept { return mapped_ != nullptr; }
  /// null if empty.
  [[nodiscard]] void* data() const noexcept;
  /// 0 if empty.
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  friend class DeviceBuffers;
  explicit HostMapping(std::unique_ptr<HostMappingState> mapped) noexcept;

  std::unique_ptr<HostMappingState> mapped_;
};

}  // namespace berth
