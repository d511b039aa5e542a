// SPDX-License-Identifier: Apache-2.0
// A stream handle names its context, but for the default streams, which are those of the current
// one.
#pragma once

#include <cstdint>
#include <optional>

#include "berth/stream.hpp"

#include "device/device_context.hpp"

namespace berth {

/// Whether `stream` is the legacy or the per-thread default stream: 0, CU_STREAM_LEGACY (1) or
/// CU_STREAM_PER_THREAD (2).
inline bool is_default_stream(CUstream stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <=
         reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD);
}

/// Held around driver calls on `stream`: makes its context current where that matters.
class StreamScope {
 public:
  explicit StreamScope(StreamRef stream) {
    if (is_default_stream(stream.native())) scope_.emplace(stream.context());
  }

 private:
  std::optional<ContextScope> scope_;
};

}  // namespace berth
