// SPDX-License-Identifier: Apache-2.0
#include "base/thread_number.hpp"

#include <atomic>

namespace berth {

std::uint64_t this_thread_number() noexcept {
  static constinit std::atomic<std::uint64_t> last = 0;
  static constinit thread_local std::uint64_t number = 0;
  if (number == 0) number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

}  // namespace berth
