// SPDX-License-Identifier: Apache-2.0
#include "sim/check/happens_before.hpp"

namespace berth::sim {

Stamp HappensBefore::open_lane() {
  for (Retired& retired : retired_) {
    if (!host_.includes(retired.latest)) continue;
    const Stamp last = retired.latest;
    retired = retired_.back();
    retired_.pop_back();
    return last;
  }
  return {lanes_++, 0};
}

void HappensBefore::submit(StreamOrder& order) {
  if (order.host_version == 0) order.latest = open_lane();
  if (order.host_version != host_version_) {
    order.clock.join(host_);
    order.host_version = host_version_;
  }
  ++order.latest.time;
  order.clock.include(order.latest);
}

void HappensBefore::host_sees(const Clock& clock) {
  if (host_.join(clock)) ++host_version_;
}

void HappensBefore::add_retired(Handle context, Clock& clock) const {
  for (const Retired& retired : retired_)
    if (context == 0 || retired.context == context) clock.include(retired.latest);
}

void HappensBefore::retire(const StreamOrder& order, Handle context) {
  if (order.host_version != 0) retired_.push_back({order.latest, context});
}

}  // namespace berth::sim
