// SPDX-License-Identifier: Apache-2.0
// join() for streams of several devices, each of which has its own event pool.
#pragma once

#include <functional>
#include <span>

#include "berth/event_pool.hpp"
#include "berth/stream.hpp"

namespace berth {

using EventPoolOf = std::function<EventPool&(DeviceContext&)>;

void join(const EventPoolOf& events_of, StreamRef waiter, std::span<const StreamRef> streams);

}  // namespace berth
