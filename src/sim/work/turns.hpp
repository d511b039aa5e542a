// SPDX-License-Identifier: Apache-2.0
// Virtual time: eligible heads of streams that wait for an engine, in the order of execution by
// each engine. Guarded by sim::mutex.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/work/stream.hpp"
#include "sim/work/timeline.hpp"

namespace berth::sim {

class Turns {
 public:
  struct Next {
    Stream* stream;
    Demand demand;
  };

  /// The head of `stream` is eligible since `stream.ready_ns`.
  void add(Stream& stream, const Demand& demand) {
    engines_[{stream.device, demand.engine}].emplace(turn_of(stream), Next{&stream, demand});
  }
  void remove(const Stream& stream) {
    for (auto& [engine, heads] : engines_)
      if (heads.erase(turn_of(stream)) != 0) return;
  }
  /// The highest-priority head whose engine is free in `timeline`; nullopt if there is none.
  [[nodiscard]] std::optional<Next> next(const Timeline& timeline) const {
    const std::pair<const Turn, Next>* best = nullptr;
    for (const auto& [engine, heads] : engines_) {
      if (heads.empty() || !timeline.has_room(engine.first, engine.second)) continue;
      if (best == nullptr || heads.begin()->first < best->first) best = &*heads.begin();
    }
    return best == nullptr ? std::nullopt : std::optional(best->second);
  }

 private:
  /// Priority, time of eligibility, and the unique number of the submission.
  using Turn = std::tuple<int, std::uint64_t, std::uint64_t>;
  static Turn turn_of(const Stream& stream) {
    return {stream.priority, stream.ready_ns, stream.queue.front().number};
  }

  std::map<std::pair<int, Engine>, std::map<Turn, Next>> engines_;  // by device and engine
};

}  // namespace berth::sim
