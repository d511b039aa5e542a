// SPDX-License-Identifier: Apache-2.0
#include "sim/work/timeline.hpp"

#include "base/check.hpp"

namespace berth::sim {

Timeline::Timeline(int devices, int jitter_percent, std::uint64_t seed)
    : jitter_percent_(jitter_percent), random_(seed), busy_(static_cast<std::size_t>(devices)) {}

void Timeline::advance_to(std::uint64_t ns) {
  BERTH_CHECK(ns >= now_ns_);
  now_ns_ = ns;
}

bool Timeline::has_room(int device, Engine engine) const {
  if (engine == Engine::none) return true;
  const Engines& engines = busy_[static_cast<std::size_t>(device)];
  return engines[static_cast<std::size_t>(engine)] < concurrency(engine);
}

void Timeline::begin(int device, const Demand& demand, Handle stream, std::uint64_t number) {
  BERTH_CHECK(has_room(device, demand.engine));
  std::uint64_t ns = demand.ns;
  if (jitter_percent_ != 0) {
    const auto percent = static_cast<std::uint64_t>(jitter_percent_);
    ns = ns / 100 * (100 - percent + random_.below(2 * percent + 1));
  }
  ++busy(device, demand.engine);
  under_way_.push({now_ns_ + ns, number, stream, device, demand.engine});
}

std::optional<std::uint64_t> Timeline::next_end_ns() const {
  if (under_way_.empty()) return std::nullopt;
  return under_way_.top().end_ns;
}

Handle Timeline::end_next() {
  const UnderWay ended = under_way_.top();
  under_way_.pop();
  --busy(ended.device, ended.engine);
  advance_to(ended.end_ns);
  return ended.stream;
}

}  // namespace berth::sim
