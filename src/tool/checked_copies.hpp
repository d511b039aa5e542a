// SPDX-License-Identifier: Apache-2.0
// Copies that are checked: bytes are copied from the host over devices back to the host, on several
// streams at once, and every byte is compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "berth/runtime.hpp"

namespace berth::tool {

struct CheckedCopiesOptions {
  std::size_t lanes = 8;  ///< concurrent copies, each with a stream; a multiple of 4
  std::size_t bytes = std::size_t{4} << 20;  ///< of each lane
  std::size_t rounds = 4;
  std::function<void(std::size_t)> on_progress = nullptr;  ///< receives the number of rounds done
};

struct CheckedCopiesResult {
  std::size_t copies = 0;
  std::uint64_t bytes_compared = 0;
  std::uint64_t bytes_different = 0;
  std::size_t streams = 0;
  std::size_t streams_pending_peak = 0;  ///< most streams seen with work pending at one time
};

/// Every lane sends its own bytes host -> device -> device -> host: to the device on its stream,
/// then, behind an event, to the other device and back on another lane's stream. Four consecutive
/// lanes have all combinations of pinned and pageable source and target. With several devices,
/// every second round copies between devices.
///
/// Memory is kept no longer than the interface requires: pageable sources are overwritten, and
/// blocks are freed, reused and filled with other bytes while their copies are pending. So a wrong
/// byte is an order that berth did not keep.
/// Errors  Those of Runtime's parts.
CheckedCopiesResult check_copies(Runtime& runtime, const CheckedCopiesOptions& options = {});

}  // namespace berth::tool
