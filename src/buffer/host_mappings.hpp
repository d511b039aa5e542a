// SPDX-License-Identifier: Apache-2.0
// The host memory that backends have mapped, and the operations that use it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "berth/device_backend.hpp"

#include "base/condition_variable.hpp"
#include "base/mutex.hpp"

namespace berth {

class HostMappingState;

/// Threads  Safe from any thread.
class HostMappings {
 public:
  /// Errors  InvalidArgument: it overlaps mapped memory of its backend. std::bad_alloc.
  void add(HostMappingState& mapped) BERTH_EXCLUDES(mutex_);
  /// After begin_end(): from here on the same memory may be mapped again.
  void remove(HostMappingState& mapped) noexcept BERTH_EXCLUDES(mutex_);
  /// `done` for an operation of `backend` on `memory`: until it is called, the operation uses what
  /// of the memory is mapped. Waits while a mapping of the memory ends.
  /// Errors  std::bad_alloc.
  [[nodiscard]] DeviceBackend::Done use(const DeviceBackend& backend,
                                        std::span<const std::byte> memory, DeviceBackend::Done done)
      BERTH_EXCLUDES(mutex_);
  /// While the result exists, what is mapped of the memory stays mapped. Null: nothing is mapped.
  /// Waits likewise.
  /// Errors  std::bad_alloc.
  [[nodiscard]] std::shared_ptr<const void> hold(const DeviceBackend& backend,
                                                 std::span<const std::byte> memory)
      BERTH_EXCLUDES(mutex_);
  /// Whether it is still mapped: not after close(), which otherwise waits for end_end(). Waits
  /// until no operation uses it.
  bool begin_end(HostMappingState& mapped) noexcept BERTH_EXCLUDES(mutex_);
  void end_end() noexcept BERTH_EXCLUDES(mutex_);
  /// Unmaps all, once no operation uses it and none begins.
  void close() noexcept BERTH_EXCLUDES(mutex_);

 private:
  class MappedUse;
  /// Null: nothing is mapped.
  std::shared_ptr<MappedUse> find_use(const DeviceBackend& backend,
                                      std::span<const std::byte> memory) BERTH_EXCLUDES(mutex_);
  void end_use(const std::vector<HostMappingState*>& used) noexcept BERTH_EXCLUDES(mutex_);
  /// For close(). Null: there is no more.
  HostMappingState* take_one() noexcept BERTH_EXCLUDES(mutex_);

  Mutex mutex_;
  ConditionVariable unused_;
  std::unordered_set<HostMappingState*> mapped_ BERTH_GUARDED_BY(mutex_);
  std::size_t ends_ BERTH_GUARDED_BY(mutex_) = 0;  ///< by owners, not over
};

}  // namespace berth
