// SPDX-License-Identifier: Apache-2.0
// What waits in a hardware channel: waits for values, and for work of other streams. Work that is
// given to the channel comes after all of them. A wait that comes after all others stands for them,
// so that few are kept however many wait. Guarded by sim::mutex.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/work/operation.hpp"

namespace berth::sim {

class ChannelWaits {
 public:
  /// Those for which no later one stands.
  [[nodiscard]] std::vector<Ticket>& last() { return last_; }
  /// `wait` comes after all of them.
  void replace(const Ticket& wait) { last_.assign(1, wait); }
  /// `wait` does not. Now and then drops what is done, as `done(ticket)` says.
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
