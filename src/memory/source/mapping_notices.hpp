// SPDX-License-Identifier: Apache-2.0
// Tells the program which device memory is mapped: DeviceAllocatorOptions::on_map and on_unmap. The
// sources of memory call it at two places each: after a range of addresses has been mapped, and
// before it is unmapped.
#pragma once

#include <cstddef>
#include <cstdint>

#include "berth/mapped_range.hpp"

#include "device/device_context.hpp"

namespace berth {

/// A value without callbacks by default. The callbacks must outlive it.
/// Threads  Safe from any thread. The callbacks are called under the locks of the caller.
class MappingNotices {
 public:
  struct Range {
    std::uintptr_t address;
    std::size_t bytes;
    std::size_t piece_bytes;
    bool is_alias = false;
  };

  MappingNotices() = default;
  MappingNotices(DeviceContext& context, const MappingCallback& on_map,
                 const MappingCallback& on_unmap)
      : context_(&context),
        on_map_(on_map ? &on_map : nullptr),
        on_unmap_(on_unmap ? &on_unmap : nullptr) {}

  /// The range is usable from now on.
  /// Errors  Those of on_map: the range is not known to the program then.
  void mapped(const Range& range) const {
    if (on_map_ != nullptr) call(*on_map_, range);
  }
  /// The same for a range that the driver has refused to unmap, after unmapping(). What on_map
  /// throws is reported. False then: the range is not known to the program.
  bool mapped_still(const Range& range) const noexcept {
    return on_map_ == nullptr || call_or_report(*on_map_, range, "on_map");
  }
  /// The range is about to be unmapped. What on_unmap throws is reported.
  void unmapping(const Range& range) const noexcept {
    if (on_unmap_ != nullptr) call_or_report(*on_unmap_, range, "on_unmap");
  }

  /// Whether the calling thread is in one of the callbacks.
  [[nodiscard]] static bool is_inside();
  /// Errors  InvalidArgument: the calling thread is in one of the callbacks, whose caller may hold
  ///         the lock that `function` needs.
  static void require_outside(const char* function);

 private:
  void call(const MappingCallback& callback, const Range& range) const;
  /// Whether the callback returned.
  bool call_or_report(const MappingCallback& callback, const Range& range,
                      const char* name) const noexcept;

  DeviceContext* context_ = nullptr;
  const MappingCallback* on_map_ = nullptr;
  const MappingCallback* on_unmap_ = nullptr;
};

}  // namespace berth
