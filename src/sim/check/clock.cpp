// SPDX-License-Identifier: Apache-2.0
#include "sim/check/clock.hpp"

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

}  // namespace berth::sim
