// SPDX-License-Identifier: Apache-2.0
#include "sim/happens_before.hpp"

#include <algorithm>

namespace berth::sim {

bool Clock::include(Stamp stamp) {
  if (includes(stamp)) return false;
  if (stamp.lane >= times_.size()) times_.resize(stamp.lane + 1);
  times_[stamp.lane] = stamp.time;
  return true;
}

bool Clock::join(const Clock& other) {
  bool news = false;
  if (other.times_.size() > times_.size()) times_.resize(other.times_.size());
  for (std::size_t lane = 0; lane < other.times_.size(); ++lane) {
    if (other.times_[lane] <= times_[lane]) continue;
    times_[lane] = other.times_[lane];
    news = true;
  }
  return news;
}

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
