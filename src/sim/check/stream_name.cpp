// SPDX-License-Identifier: Apache-2.0
#include "sim/check/stream_name.hpp"

#include <fmt/format.h>

#include "sim/work/stream.hpp"

namespace berth::sim {

std::string stream_name(Handle callers_handle) {
  switch (callers_handle) {
    case kLegacyStream:
      return "the legacy stream";
    case kPerThreadStream:
      return "a thread's default stream";
    default:
      return fmt::format("stream {:#x}", callers_handle);
  }
}

}  // namespace berth::sim
