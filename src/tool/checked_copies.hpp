// SPDX-License-Identifier: Apache-2.0
// Copies that are checked: bytes travel from the host over devices back to the host, on several
// streams at once, and every one is compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "berth/runtime.hpp"

namespace berth::tool {

struct CheckedCopiesOptions {
  std::size_t lanes = 8;  ///< copies in flight at once, each with a stream; a multiple of 4
  std::size_t bytes = std::size_t{4} << 20;  ///< of each lane
  std::size_t rounds = 4;
  std::function<void(std::size_t)> on_progress = nullptr;  ///< gets the rounds that are done
};

struct CheckedCopiesResult {
  std::size_t copies = 0;
  std::uint64_t bytes_compared = 0;
  std::uint64_t bytes_different = 0;
  std::size_t streams = 0;
  std::size_t streams_pending_peak = 0;  ///< most streams seen with work pending at one time
};

/// Every lane sends its own bytes host -> device -> device -> host: up on its stream, then, behind
/// an event, across and down on another lane's. Among four lanes in a row are all combinations of
/// pinned and pageable source and target. With several devices every second round crosses from
/// device to device.
///
/// Nothing is kept longer than the interface asks for: pageable sources are overwritten and blocks
/// are freed, reused and filled with other bytes while their copies are pending. A byte that
/// arrives wrong is therefore an order that berth did not keep.
/// Errors  Whatever Runtime's parts throw.
CheckedCopiesResult check_copies(Runtime& runtime, const CheckedCopiesOptions& options = {});

}  // namespace berth::tool
