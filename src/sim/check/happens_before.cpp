// SPDX-License-Identifier: Apache-2.0
#include "sim/check/happens_before.hpp"

#include <utility>

namespace berth::sim {

Stamp HappensBefore::open_lane() {
  const HostClock& known = host_.current();
  if (known.version != passed_by_) passed_ = 0;
  passed_by_ = known.version;
  for (; passed_ < retired_.size(); ++passed_) {
    Retired& retired = retired_[passed_];
    if (!known.clock.includes(retired.latest)) continue;
    const Stamp last = retired.latest;
    retired = retired_.back();
    retired_.pop_back();
    return last;
  }
  return {lanes_++, 0};
}

Floor HappensBefore::submit(StreamOrder& order) {
  const HostClock& host = host_.current();
  const bool has_new_clock = order.host_version != host.version;
  if (!order.has_lane) order.latest = open_lane();
  order.has_lane = true;
  if (has_new_clock) order.clock.join(host.clock);
  order.host_version = host.version;
  ++order.latest.time;
  order.clock.include(order.latest);
  Floor floor = std::exchange(order.floor, {});
  if (has_new_clock) floor.clock.join(host.clock);
  return floor;
}

// The host's knowledge is closed.
const Clock& HappensBefore::run(StreamOrder& order, const Clock& before, const Floor& floor) {
  if (floor.replaces) {
    order.ran = order.ran_closed = floor.clock;
  } else {
    order.ran.join(floor.clock);
    order.ran_closed.join(floor.clock);
  }
  late_.include(order.ran_closed, before, order.ran);
  order.ran = before;
  order.clock.join(order.ran_closed, before);
  return order.ran_closed;
}

void HappensBefore::order_late(StreamOrder& order, Stamp wait, const Clock& clock) {
  late_.learn(wait, clock);
  order.ran_closed.join(clock);
  order.clock.join(clock);
}

bool HappensBefore::precedes(Stamp stamp, const StreamOrder& order) const {
  if (order.clock.includes(stamp)) return true;
  Clock closed = order.ran_closed;
  late_.include(closed, order.clock, order.ran);
  return closed.includes(stamp);
}

void HappensBefore::host_sees(const Clock& clock) {
  HostClock& host = host_.current();
  Clock closed = host.clock;
  late_.include(closed, clock, host.clock);
  host_.learn(host, closed);
}

void HappensBefore::branch_off(StreamOrder& order, const StreamOrder& from) {
  order.floor = {from.ran_closed, true};
  order.clock = from.clock;
  order.clock.include(order.latest);
  order.host_version = from.host_version;
}

Stamp HappensBefore::host_acts() {
  HostClock& host = host_.current();
  if (!host.latest) host.latest = open_lane();
  ++host.latest->time;
  host_.learn(host, *host.latest);
  return *host.latest;
}

void HappensBefore::forget_objects(std::span<const std::byte> memory) {
  for (const Stamp latest : host_.forget(memory)) retired_.push_back({latest, kNoContext});
}

void HappensBefore::end_thread(std::uint64_t thread) {
  if (const auto latest = host_.end_thread(thread)) retired_.push_back({*latest, kNoContext});
}

void HappensBefore::add_retired(Handle context, Clock& clock) const {
  for (const Retired& retired : retired_)
    if (context == 0 || retired.context == context) clock.include(retired.latest);
}

void HappensBefore::retire(const StreamOrder& order, Handle context) {
  if (order.has_lane) retired_.push_back({order.latest, context});
}

}  // namespace berth::sim
