// SPDX-License-Identifier: Apache-2.0
// An event: the work that precedes its latest record, and the time of completion. Guarded by
// sim::mutex.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>

#include "sim/check/happens_before.hpp"
#include "sim/graph/capture.hpp"
#include "sim/handle_table.hpp"
#include "sim/work/interprocess_event.hpp"
#include "sim/work/operation.hpp"

namespace berth::sim {

struct Event {
  Event(Handle handle_, Handle context_, unsigned flags_)
      : handle(handle_), context(context_), flags(flags_) {}

  [[nodiscard]] bool recorded() const { return record.stream != 0; }
  [[nodiscard]] Awaited awaited() const { return {{record}, clock}; }
  /// Whether its latest record is one of another process.
  [[nodiscard]] bool is_foreign() const {
    return shared != nullptr && shared->recorded() != own_record;
  }
  [[nodiscard]] bool timed() const { return (flags & CU_EVENT_DISABLE_TIMING) == 0; }

  Handle handle;
  Handle context;
  unsigned flags;
  const CallStack* made_at = nullptr;  ///< null if call sites are off
  Ticket record;                       ///< of the latest record; none before the first
  Clock clock;                         ///< the predecessors of the latest record
  CapturePoint captured;               ///< set if the latest record was captured
  std::uint64_t time_ns = 0;           ///< simulated time, set once the record is complete
  std::shared_ptr<InterprocessEvent> shared = nullptr;  ///< of an interprocess event
  std::uint64_t own_record = 0;  ///< the number in it of the latest record of this process
};

using Events = HandleTable<Event, HandleKind::event>;

}  // namespace berth::sim
