// SPDX-License-Identifier: Apache-2.0
// Hardware channels (work queues, connections): each stream of a context is mapped onto one of a
// few. A channel passes work on in the order of submission, so that a stream that waits holds up
// the later work of every stream in its channel. One channel takes all work of a stream here, and
// the work of its graphs and batches. Guarded by sim::mutex. Source: CUDA Programming Guide,
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
  /// Where the configuration leaves that open, the environment decides.
  explicit Channels(const Config& config);

  /// Of each context; 0 where each stream has a channel of its own.
  [[nodiscard]] int count() const { return count_; }
  /// Maps `stream`, a new one of `context`.
  void assign(Context& context, Stream& stream);

 private:
  const int count_;
  const bool by_seed_;
  Random random_;
};

}  // namespace berth::sim
