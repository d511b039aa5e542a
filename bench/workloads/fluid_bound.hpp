// SPDX-License-Identifier: Apache-2.0
// The minimum memory that a program of busy streams needs if no stream is made to wait, with memory
// as a fluid that fits everywhere. A request is served by memory that its own stream has freed and
// still uses, the last freed first; then by memory whose work is done; and last by new memory. No
// allocator that neither waits on the GPU nor takes host time needs less. An allocator that calls
// the driver takes some time, in which more work completes, and can be slightly below the bound.
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

  /// Runs the next pass, in the time of an allocator whose calls take no time.
  void step();
  /// For a caller that runs the operations together with an allocator, in the allocator's time.
  void advance_to(std::uint64_t now_ns) { now_ns_ = std::max(now_ns_, now_ns); }

  /// The values of all passes so far.
  [[nodiscard]] std::uint64_t bytes_live_peak() const { return bytes_live_peak_; }
  [[nodiscard]] std::uint64_t bytes_reserved() const { return bytes_reserved_; }
  /// The peak of live bytes and freed bytes whose work is not done: the same value computed
  /// differently.
  [[nodiscard]] std::uint64_t bytes_live_or_pending_peak() const { return bytes_used_peak_; }
  /// Reserved / peak live - 1; 0 if no bytes were live.
  [[nodiscard]] double waste() const;

  // The interface that run_operations() requires.
  void allocate(std::uint32_t slot, std::uint64_t bytes, std::uint32_t stream);
  void wait(std::uint32_t stream, std::uint32_t other);
  void free(std::uint32_t slot, std::uint32_t stream, std::uint32_t user);
  void move(std::uint32_t from, std::uint32_t to);

 private:
  /// The bytes that one stream has freed, by the time at which its own work is done.
  using PendingBytes = std::map<std::uint64_t, std::uint64_t>;
  /// The bytes that another stream still uses.
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
