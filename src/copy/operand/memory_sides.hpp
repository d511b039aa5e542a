// SPDX-License-Identifier: Apache-2.0
// Looks up the memory at the two sides of a copy.
#pragma once

#include <cstddef>
#include <optional>

#include "berth/device_registry.hpp"
#include "berth/stream.hpp"

#include "base/process_memory.hpp"
#include "copy/copy_arguments.hpp"
#include "copy/operand/known_devices.hpp"
#include "copy/operand/memory_kind.hpp"
#include "device/device_context.hpp"

namespace berth {

/// Errors   InvalidArgument: a range that exceeds a pinned block; also those of find_allocation().
/// Threads  Safe from any thread.
class MemorySides {
 public:
  MemorySides(const DeviceRegistry& registry, const OwnHostMemory& own)
      : registry_(registry), own_(own), known_(registry) {}

  /// The allocation with a range of a copy on `stream`.
  [[nodiscard]] AllocationInfo place_of(const void* data, std::size_t bytes,
                                        StreamRef stream) const {
    return find_allocation(registry_, own_, stream.context().driver(), data, bytes);
  }
  [[nodiscard]] MemorySide find(const void* data, std::size_t bytes, const char* name,
                                StreamRef stream) const {
    const AllocationInfo place = place_of(data, bytes, stream);
    require_within(place, data, bytes, name);
    return side_at(data, place.kind);
  }
  [[nodiscard]] MemorySide find_target(const void* data, std::size_t bytes,
                                       StreamRef stream) const {
    return find(data, bytes, kTargetName, stream);
  }
  [[nodiscard]] MemorySide find_source(const void* data, std::size_t bytes,
                                       StreamRef stream) const {
    return find(data, bytes, kSourceName, stream);
  }

  /// The same without a driver call for an address that is known. The answer may be stale: the
  /// memory may have been freed since, and the address may be in use again, also on another device.
  [[nodiscard]] MemorySide recall(const void* data, std::size_t bytes, const char* name,
                                  StreamRef stream) {
    if (const auto pinned = find_pinned_allocation(own_.pinned, data)) {
      require_within(*pinned, data, bytes, name);
      return side_at(data, pinned->kind);
    }
    if (DeviceContext* const device = known_.find(data))
      return side_at(data, {MemoryKind::Type::device, device, {}});
    const AllocationInfo place = place_of(data, bytes, stream);
    require_within(place, data, bytes, name);
    known_.note(data, place);
    return side_at(data, place.kind);
  }
  /// Whether one of the two addresses was known. None is afterwards.
  bool forget(const void* target, const void* source) {
    const bool target_was_known = known_.forget(target);
    return known_.forget(source) || target_was_known;
  }

  /// Whether the host may write the target itself after a copy from `source`: the target is host
  /// memory that berth does not manage. No driver call.
  [[nodiscard]] bool is_host_writable(void* target, std::size_t bytes, const MemorySide& source,
                                      StreamRef stream) const {
    if (source.kind.type != MemoryKind::Type::device) return false;
    if (known_.find(target) != nullptr || find_pinned_allocation(own_.pinned, target)) return false;
    if (is_pinned_by_runtime(own_.pinned, target)) return false;  // perhaps free
    return stream.context().host_reach().shares_managed && are_writable(target, bytes);
  }

  /// See copy_arguments.hpp.
  void require_host_memory(const void* data, std::size_t bytes, const char* name) const {
    berth::require_host_memory(registry_, own_, data, bytes, name);
  }

  static MemorySide side_at(const void* data, const MemoryKind& kind) {
    return {static_cast<std::byte*>(const_cast<void*>(data)), kind};  // a source is never written
  }

 private:
  const DeviceRegistry& registry_;
  const OwnHostMemory own_;
  KnownDevices known_;
};

}  // namespace berth
