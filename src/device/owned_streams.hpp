// SPDX-License-Identifier: Apache-2.0
// The streams of a device that berth owns, each under a number. The driver may give a destroyed
// stream's handle to a later stream. A number is never reused, so facts about a stream under its
// number cannot be attributed to another.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/mutex.hpp"

namespace berth {

/// Threads  Safe from any thread.
/// Forks    In a child, berth owns no stream.
class OwnedStreams {
 public:
  /// The number of streams that berth does not own.
  static constexpr std::uint64_t kNotOwned = 0;
  /// The number of the legacy default stream, which never ends.
  static constexpr std::uint64_t kLegacyDefault = 1;

  /// Gives the stream a new number. Does nothing for the default streams.
  /// Errors  std::bad_alloc: the number is unchanged.
  void add(CUstream stream) {
    if (is_default(stream) || !origin_.is_here()) return;
    const MutexLock lock(mutex_);
    std::uint64_t& number = numbers_[stream];
    const std::uint64_t next = next_.fetch_add(1, std::memory_order_relaxed);
    BERTH_CHECK(next > kLegacyDefault && next > number);
    number = next;
  }
  /// The stream loses its number.
  void remove(CUstream stream) noexcept {
    if (is_default(stream) || !origin_.is_here()) return;
    const MutexLock lock(mutex_);
    numbers_.erase(stream);
  }
  [[nodiscard]] std::size_t count() const {
    const MutexLock lock(mutex_);
    return numbers_.size();
  }
  [[nodiscard]] std::uint64_t number_of(CUstream stream) const noexcept {
    if (stream == nullptr || stream == CU_STREAM_LEGACY) return kLegacyDefault;
    if (!origin_.is_here()) return kNotOwned;
    const MutexLock lock(mutex_);
    const auto found = numbers_.find(stream);
    return found != numbers_.end() ? found->second : kNotOwned;
  }

 private:
  static bool is_default(CUstream stream) {
    return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  }

  static inline std::atomic<std::uint64_t> next_ = kLegacyDefault + 1;  ///< of all devices

  const ForkOrigin origin_;
  mutable Mutex mutex_;
  std::unordered_map<CUstream, std::uint64_t> numbers_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
