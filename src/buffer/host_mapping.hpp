// SPDX-License-Identifier: Apache-2.0
// Host memory that a backend has mapped for its devices.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "buffer/buffer_set.hpp"
#include "device/backend_table.hpp"

namespace berth {

/// What a HostMapping owns.
class HostMappingState {
 public:
  /// Errors  InvalidArgument: it overlaps mapped memory of the same backend; the Runtime has ended.
  ///         NotSupported and others: the backend refuses.
  HostMappingState(std::shared_ptr<BufferSet> set, const RegisteredBackend& owner,
                   std::span<std::byte> memory);
  /// Waits for the operations that use the memory.
  ~HostMappingState();
  HostMappingState(const HostMappingState&) = delete;
  HostMappingState& operator=(const HostMappingState&) = delete;

  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }

 private:
  friend class HostMappings;
  [[nodiscard]] bool overlaps(const DeviceBackend& backend,
                              std::span<const std::byte> memory) const;
  template <class Unmap>
  void leave(const Unmap& unmap) noexcept;
  void unmap() noexcept;
  void report_failed_unmapping(const char* reason) const noexcept;

  const std::shared_ptr<BufferSet> set_;
  const RegisteredBackend& owner_;  ///< not after the end of the Runtime
  const std::span<std::byte> memory_;
  // Guarded by the lock of HostMappings.
  std::size_t uses_ = 0;    ///< operations
  bool is_ending_ = false;  ///< no operation uses the memory, nor begins to
};

}  // namespace berth
