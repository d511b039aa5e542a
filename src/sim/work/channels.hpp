// SPDX-License-Identifier: Apache-2.0
// Hardware channels (work queues, connections): each stream of a context is mapped to one of a few
// channels. A channel executes work in the order of submission, so a waiting stream blocks the
// later work of every stream in its channel. In the simulation, all work of a stream, including its
// graphs and batches, uses one channel. Guarded by sim::mutex. Source: CUDA Programming Guide,
// "CUDA_DEVICE_MAX_CONNECTIONS": "If independent GPU tasks [...] map to the same work queue, a
// false dependency is created".
#pragma once

#include "sim/config.hpp"
#include "sim/random.hpp"

namespace berth::sim {

struct Context;
struct Stream;

class Channels {
 public:
  /// If the configuration is `auto`, the environment decides.
  explicit Channels(const Config& config);

  /// The number of channels of each context; 0 if each stream has its own.
  [[nodiscard]] int count() const { return count_; }
  /// Maps `stream`, a new stream of `context`.
  void assign(Context& context, Stream& stream);

 private:
  const int count_;
  const bool by_seed_;
  Random random_;
};

}  // namespace berth::sim
