// SPDX-License-Identifier: Apache-2.0
// Virtual time: the clock, the engines of every device, and their work. Invariants: an engine never
// exceeds its concurrency; the clock is monotonic. Guarded by sim::mutex.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "sim/handle_table.hpp"
#include "sim/random.hpp"
#include "sim/work/cost_model.hpp"

namespace berth::sim {

/// The demand of an operation on a device.
struct Demand {
  Engine engine = Engine::none;
  std::uint64_t ns = 0;
};

class Timeline {
 public:
  /// `devices`: including MIG instances. `jitter_percent`: the maximum random deviation of each
  /// duration, by `seed`.
  Timeline(int devices, int jitter_percent, std::uint64_t seed);

  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
  void advance_to(std::uint64_t ns);

  [[nodiscard]] bool has_room(int device, Engine engine) const;
  /// The head of `stream` begins now. The engine is free.
  void begin(int device, const Demand& demand, Handle stream, std::uint64_t number);

  /// The time of the next completion; nullopt if no work is in progress.
  [[nodiscard]] std::optional<std::uint64_t> next_end_ns() const;
  /// Advances to that time, and frees the engine. Returns the stream.
  Handle end_next();

 private:
  struct UnderWay {
    std::uint64_t end_ns;
    std::uint64_t number;  ///< of the submission: what ends at the same time ends in this order
    Handle stream;
    int device;
    Engine engine;
  };
  struct EndsLater {
    bool operator()(const UnderWay& a, const UnderWay& b) const {
      return a.end_ns != b.end_ns ? a.end_ns > b.end_ns : a.number > b.number;
    }
  };
  using Engines = std::array<int, static_cast<std::size_t>(Engine::count)>;

  int& busy(int device, Engine engine) {
    return busy_[static_cast<std::size_t>(device)][static_cast<std::size_t>(engine)];
  }

  std::uint64_t now_ns_ = 0;
  const int jitter_percent_;
  Random random_;
  std::vector<Engines> busy_;  // by device
  std::priority_queue<UnderWay, std::vector<UnderWay>, EndsLater> under_way_;
};

}  // namespace berth::sim
