// SPDX-License-Identifier: Apache-2.0
// The kinds of programs, and what each runs on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "berth/device_allocator.hpp"

#include "sim/config.hpp"

namespace berth::endurance {

struct Mode {
  std::string name;
  /// Hundredths of all operations.
  unsigned share;
  bool virtual_memory = true;
  CrossStreamReuse cross_stream_reuse = CrossStreamReuse::behind_waits;
  unsigned threads = 1;
  sim::Progress progress = sim::Progress::eager;
  /// Whether each block is used as its caller may, under the race detector.
  bool checked = false;
  /// No shortage: threads live on what they keep and what others hand over, and windows add up.
  bool calm = false;
  std::size_t sizes = 24;  ///< usual ones at a time; there are others unless it is calm
  /// Whether the limit of reserved bytes changes now and then.
  bool limited = false;
  /// Whether one thread at a time runs, each for some operations, as an autograd engine's do.
  bool takes_turns = false;
  /// Whether on_pressure frees blocks of the requesting thread, there or on another one.
  bool relieved = false;
  /// Whether streams come and go that the allocator is not told of, and pools with their streams.
  bool has_guests = false;
  std::size_t granule_bytes = std::size_t{2} << 20;  ///< of the device
  std::size_t granules_joined = 1;                   ///< of the device's, in one of the allocator's
  std::size_t granules_max = 3;                      ///< of the largest requests

  [[nodiscard]] std::size_t allocator_granule_bytes() const {
    return granule_bytes * granules_joined;
  }
  /// So little that a program meets its end again and again.
  [[nodiscard]] std::size_t device_bytes() const { return 48 * allocator_granule_bytes(); }
  [[nodiscard]] std::size_t request_bytes_max() const {
    return granules_max * allocator_granule_bytes();
  }
  /// For the blocks of one thread of a calm program.
  [[nodiscard]] std::size_t bytes_calm() const { return device_bytes() / 2 / threads; }
  /// What one seed stands for: that many operations, whatever the length of all.
  [[nodiscard]] std::uint64_t operations_a_seed() const { return checked ? 200'000 : 1'000'000; }

  [[nodiscard]] sim::Config config(std::uint64_t seed) const;
  [[nodiscard]] DeviceAllocatorOptions options() const;
};

/// Checked ones first, which find most: a tenth of all operations.
std::span<const Mode> modes();

}  // namespace berth::endurance
