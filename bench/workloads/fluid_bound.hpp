// SPDX-License-Identifier: Apache-2.0
// The least memory that a program of busy streams needs where no stream is made to wait: memory as
// a fluid that fits everywhere. A request is served by what its own stream has freed and still
// works on, of which the last freed first, then by memory whose work is done, and last by new
// memory. No allocator does better that neither waits on the GPU nor spends time of the host. One
// that calls the driver spends some, in which more work gets done, and can come out a little below.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "workloads/busy_program.hpp"

namespace berth::bench {

class FluidBound {
 public:
  FluidBound(const BusyProgram& program, const BusyOptions& options);

  /// Runs the next pass, in the time of an allocator whose calls take none.
  void step();
  /// For who runs the operations along with an allocator, in that one's time.
  void advance_to(std::uint64_t now_ns) { now_ns_ = std::max(now_ns_, now_ns); }

  /// Of all passes so far.
  [[nodiscard]] std::uint64_t bytes_live_peak() const { return bytes_live_peak_; }
  [[nodiscard]] std::uint64_t bytes_reserved() const { return bytes_reserved_; }
  /// Freed bytes whose work is not done, and live ones, at their most: the same by another way.
  [[nodiscard]] std::uint64_t bytes_live_or_pending_peak() const { return bytes_used_peak_; }
  /// Reserved / peak live - 1; 0 where nothing was live.
  [[nodiscard]] double waste() const;

  // As run_operations() wants it.
  void allocate(std::uint32_t slot, std::uint64_t bytes, std::uint32_t stream);
  void wait(std::uint32_t stream, std::uint32_t other);
  void free(std::uint32_t slot, std::uint32_t stream, std::uint32_t user);
  void move(std::uint32_t from, std::uint32_t to);

 private:
  /// What one stream has freed, by the time at which its own work is done.
  using PendingBytes = std::map<std::uint64_t, std::uint64_t>;
  /// What another stream still uses.
  struct Used {
    std::uint32_t stream;
    std::uint64_t own_end_ns;
    std::uint64_t bytes;
  };

  void launch(std::uint32_t stream);
  void settle();
  void add_pending(std::uint32_t stream, std::uint64_t end_ns, std::uint64_t bytes);

  const BusyProgram& program_;
  const BusyOptions options_;
  int pass_ = 0;
  std::uint64_t now_ns_ = 0;
  std::vector<std::uint64_t> end_ns_;        ///< of all work of each stream
  std::vector<PendingBytes> pending_;        ///< of each stream
  std::multimap<std::uint64_t, Used> used_;  ///< by the end of the use
  std::vector<std::uint64_t> slots_;
  std::uint64_t bytes_done_ = 0;  ///< free, with no work left
  std::uint64_t bytes_pending_ = 0;
  std::uint64_t bytes_live_ = 0;
  std::uint64_t bytes_live_peak_ = 0;
  std::uint64_t bytes_used_peak_ = 0;
  std::uint64_t bytes_reserved_ = 0;
};

}  // namespace berth::bench
