// SPDX-License-Identifier: Apache-2.0
// The pending waits of a hardware channel, for values and for work of other streams. Work that is
// submitted to the channel is ordered after all of them. A wait that is ordered after all others
// replaces them, so few are kept. Guarded by sim::mutex.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/work/operation.hpp"

namespace berth::sim {

class ChannelWaits {
 public:
  /// The waits that no later wait replaces.
  [[nodiscard]] std::vector<Ticket>& last() { return last_; }
  /// Adds `wait`, which is ordered after all others.
  void replace(const Ticket& wait) { last_.assign(1, wait); }
  /// Adds a `wait` that is not. Occasionally drops waits for which `done(ticket)` is true.
  template <class Done>
  void add(const Ticket& wait, const Done& done) {
    if (last_.size() >= drop_at_) {
      drop_if(done);
      drop_at_ = 2 * last_.size() + kFew;
    }
    last_.push_back(wait);
  }
  template <class Drop>
  void drop_if(const Drop& drop) {
    std::erase_if(last_, drop);
  }

 private:
  static constexpr std::size_t kFew = 16;
  std::vector<Ticket> last_;
  std::size_t drop_at_ = kFew;
};

}  // namespace berth::sim
