// SPDX-License-Identifier: Apache-2.0
// The end of the work that a stream holds, for memory that this work uses. berth queries an ending
// stream once; all later decisions use the result.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "berth/error.hpp"
#include "berth/event_pool.hpp"
#include "berth/stream.hpp"

namespace berth {

/// Records an event behind the current work of `stream`, which is not captured. `events` of its
/// device.
/// Errors  DriverError. Exhausted: there is no event.
[[nodiscard]] std::shared_ptr<const EventLease> record_event(StreamRef stream, EventPool& events);

/// What is known of the end of the work that a stream held.
struct LastWork {
  enum class State : std::uint8_t {
    marked,    ///< `event` is behind the work
    captured,  ///< the work belongs to a graph, and may run whenever that is launched
    over,      ///< the host has waited for the work, or the driver has shut down
    unknown,   ///< the driver accepts no call for the stream: it failed, or the handle is invalid
  };

  State state = State::unknown;
  std::shared_ptr<const EventLease> event = nullptr;  ///< null in the other states
};

/// Records an event behind the current work of `stream`. If that fails, waits for the work. Repeats
/// queries and waits that fail, because each alone may have failed, but not for an invalid handle.
/// Failures are reported as warnings that begin with `who`, unless it is empty. The caller holds no
/// lock that the work may need. `events` of the stream's device.
[[nodiscard]] LastWork mark_or_wait(StreamRef stream, EventPool& events,
                                    std::string_view who) noexcept;

/// Whether a call failed because the stream had been destroyed.
[[nodiscard]] bool is_of_destroyed_stream(const Error& error) noexcept;

}  // namespace berth
