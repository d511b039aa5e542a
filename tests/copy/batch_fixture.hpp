// SPDX-License-Identifier: Apache-2.0
// A list of copies between buffers of any kind, and what is to be in each buffer once they are
// done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"

namespace berth::test {

class BatchTest {
 public:
  struct Known {
    Known(CopyTest& test, Kind kind, std::size_t bytes, std::uint64_t seed)
        : buffer(test, kind, bytes), expected(pattern(bytes, seed)) {
      buffer.write(expected);
    }
    Buffer buffer;
    Bytes expected;
  };

  explicit BatchTest(CopyTest& of) : test(of) {}

  Known& make(Kind kind, std::size_t bytes) {
    return buffers.emplace_back(test, kind, bytes, buffers.size() + 1);
  }
  /// One more copy, which is expected to happen.
  void add(Known& target, std::size_t target_at, const Known& source, std::size_t source_at,
           std::size_t bytes) {
    REQUIRE(target_at + bytes <= target.expected.size());
    REQUIRE(source_at + bytes <= source.expected.size());
    copies.push_back({target.buffer.data() + target_at, source.buffer.data() + source_at, bytes});
    std::copy_n(source.expected.begin() + std::ptrdiff_t(source_at), bytes,
                target.expected.begin() + std::ptrdiff_t(target_at));
    total += bytes;
  }
  /// `count` copies of `bytes` each. A side's begin `stride` apart.
  void add_many(Known& target, std::size_t target_stride, const Known& source,
                std::size_t source_stride, std::size_t bytes, std::size_t count) {
    for (std::size_t index = 0; index < count; ++index)
      add(target, index * target_stride, source, index * source_stride, bytes);
  }

  Transfer start(StreamRef stream, TransferOptions options = {}) {
    return test.copier.start_batch(copies, stream, std::move(options));
  }
  void check_arrived() const {
    for (const Known& known : buffers) {
      CHECK((known.buffer.read() == known.expected));
      CHECK(known.buffer.guards_hold());
    }
  }

  CopyTest& test;
  std::deque<Known> buffers;
  std::vector<CopyRange> copies;
  std::size_t total = 0;
};

inline constexpr std::size_t kBatchPiece = 64_KiB;

inline CopierOptions small_pieces() {
  return {.staging_slot_bytes = kBatchPiece,
          .staging_slots = 4,
          .workers = 2,
          .direct_piece_bytes = kBatchPiece};
}

inline sim::Config batch_machine(sim::Progress progress, bool peer = true) {
  sim::Config config;
  config.devices = 3;
  config.progress = progress;
  config.peer = peer;
  return config;
}

/// A driver that takes no batches.
inline sim::Config without_batches(sim::Config config) {
  config.faults = sim::FaultPlan::parse("cuMemcpyBatchAsync=not_supported");
  return config;
}

/// Driver calls that copy one range each.
inline std::uint64_t single_copy_calls(const Runtime& runtime) {
  return driver_calls(runtime, "cuMemcpyAsync") + driver_calls(runtime, "cuMemcpyPeerAsync");
}
inline std::uint64_t batch_calls(const Runtime& runtime) {
  return driver_calls(runtime, "cuMemcpyBatchAsync");
}

}  // namespace berth::test
