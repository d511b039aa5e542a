// SPDX-License-Identifier: Apache-2.0
// Copies of many ranges of pinned memory on a simulated link, in virtual time (virtual_copies.hpp),
// like those of a program that moves blocks of a cache between scattered places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/runtime.hpp"

#include "copy/operand/copy_sides.hpp"
#include "sim/simulator.hpp"
#include "support/measured_simulator.hpp"

namespace berth::bench {

class ScatteredCopies {
 public:
  /// `count` ranges of `bytes`, as far apart again, in an order that is not that of their
  /// addresses.
  ScatteredCopies(CopyDirection direction, std::size_t bytes, std::size_t count)
      : device_(runtime_.memory(Device::cuda())
                    .allocate(2 * bytes * count, runtime_.default_stream(Device::cuda()))),
        pinned_(runtime_.pinned_memory().allocate(2 * bytes * count)),
        stream_(runtime_.create_stream(Device::cuda())) {
    auto* const there = static_cast<std::byte*>(device_.data());
    auto* const here = static_cast<std::byte*>(pinned_.data());
    for (std::size_t index = 0; index < count; ++index) {
      std::byte* const on_device = there + 2 * bytes * ((index * kStep + 1) % count);
      std::byte* const on_host = here + 2 * bytes * (index * kStep % count);
      if (direction == CopyDirection::to_device)
        copies_.push_back({on_device, on_host, bytes});
      else
        copies_.push_back({on_host, on_device, bytes});
    }
  }
  ~ScatteredCopies() { simulator_.run_all(); }
  ScatteredCopies(const ScatteredCopies&) = delete;
  ScatteredCopies& operator=(const ScatteredCopies&) = delete;

  // Each in nanoseconds, until the last byte has arrived.
  std::uint64_t as_batch() {
    return measure([&] { runtime_.copier().start_batch(copies_, stream_); });
  }
  /// One call of the copier for each.
  std::uint64_t one_by_one() {
    return measure([&] {
      for (const CopyRange& each : copies_)
        runtime_.copier().copy_async(each.target, each.source, each.bytes, stream_);
    });
  }

 private:
  /// Odd, so coprime to a power of two.
  static constexpr std::size_t kStep = 1237;

  static sim::Config config() {
    sim::Config config = measured_simulator(sim::Progress::timed);
    config.memory = {8_GiB};
    return config;
  }
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.driver = "sim";
    return options;
  }

  template <class Submit>
  std::uint64_t measure(const Submit& submit) {
    submit();  // warms up one-time allocations
    stream_.ref().sync();
    const std::uint64_t before = simulator_.now_ns();
    submit();
    stream_.ref().sync();
    return simulator_.now_ns() - before;
  }

  sim::Simulator simulator_{config()};
  Runtime runtime_{options()};
  Allocation device_;
  Allocation pinned_;
  Stream stream_;
  std::vector<CopyRange> copies_;
};

}  // namespace berth::bench
