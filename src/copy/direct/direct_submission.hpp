// SPDX-License-Identifier: Apache-2.0
// Submits one copy that the driver makes alone. The copy is split into parts, so that an urgent
// copy can run in between, and each part is followed by an event, so that progress can be queried.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "berth/copy_range.hpp"
#include "berth/event_pool.hpp"
#include "berth/stream.hpp"

#include "copy/direct/direct_transfer.hpp"
#include "copy/direct/driver_copies.hpp"

namespace berth {

/// Within a ContextScope of the stream's device. The added ranges must not overlap.
/// Errors   All functions: DriverError; part of the copy may be pending.
/// Threads  One.
class DirectSubmission {
 public:
  /// A part has up to `part_bytes`.
  DirectSubmission(StreamRef stream, const DevicePair& devices, std::size_t part_bytes,
                   Batching batching)
      : stream_(stream), devices_(devices), part_bytes_(part_bytes), batching_(batching) {}

  /// Adds each part from now on to `transfer`, with an event of `events`.
  void mark_for(DirectTransfer& transfer, EventPool& events) {
    transfer_ = &transfer;
    events_ = &events;
  }

  void add(std::byte* to, const std::byte* from, std::size_t bytes);
  void add_rows(const PitchedTarget& to, const PitchedSource& from, std::size_t row_bytes,
                std::size_t rows);
  void add_ranges(std::span<const CopyRange> ranges);

  /// Ends a part, which consists of the `bytes` submitted since the previous part.
  void end_part(std::size_t bytes);

 private:
  const StreamRef stream_;
  const DevicePair devices_;
  const std::size_t part_bytes_;
  const Batching batching_;
  DirectTransfer* transfer_ = nullptr;
  EventPool* events_ = nullptr;
};

}  // namespace berth
