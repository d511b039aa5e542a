// SPDX-License-Identifier: Apache-2.0
// Copies that are timed one by one, and compared byte for byte on request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "berth/runtime.hpp"

namespace berth::tool {

enum class CopyDirection {
  in,      ///< from the host to the device
  out,     ///< from the device to the host
  within,  ///< from the device to itself
  peer,    ///< from the device to another one
};
std::string_view name_of(CopyDirection direction);
/// Whether one end is on the host.
bool is_of_host(CopyDirection direction);

struct CopyCase {
  CopyDirection direction = CopyDirection::in;
  bool pinned = false;  ///< the host's end; no effect if there is none
  std::size_t bytes = 0;
};

struct CopyDevices {
  Device device;
  Device peer;  ///< the target of copies to another device; the device itself if there is none
};

struct MeasuredCopy {
  CopyCase what;
  double seconds = 0;  ///< the fastest, from the call to the end of the wait
  bool checked = false;
  std::uint64_t bytes_different = 0;

  [[nodiscard]] double bytes_per_second() const {
    return seconds > 0 ? static_cast<double>(what.bytes) / seconds : 0;
  }
};

/// In GB/s, with three digits.
std::string rate_text(double bytes_per_second);

/// `repeats` copies, 1 or more, after an untimed copy that pins the memory.
/// Errors  Those of Runtime's parts.
MeasuredCopy measure_copy(Runtime& runtime, const CopyDevices& devices, const CopyCase& what,
                          int repeats, bool check);

}  // namespace berth::tool
