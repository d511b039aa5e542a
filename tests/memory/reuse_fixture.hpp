// SPDX-License-Identifier: Apache-2.0
// A device whose memory passes from stream to stream under one policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "berth/copier.hpp"

#include "memory/memory_fixture.hpp"

namespace berth::test {

inline DeviceAllocatorOptions with(CrossStreamReuse reuse, DeviceAllocatorOptions options = {}) {
  options.cross_stream_reuse = reuse;
  return options;
}

/// A device of 64 MiB under one policy, whose blocks are written by the streams that have them, so
/// that the simulator sees where two of them are not in order.
class ReuseTest : public MemoryTest {
 public:
  explicit ReuseTest(CrossStreamReuse reuse, DeviceAllocatorOptions options = {})
      : MemoryTest(small_device(64_MiB, sim::Progress::manual), with(reuse, std::move(options))) {}
  ~ReuseTest() {
    simulator.run_all();
    CHECK(simulator.take_findings().empty());
    check_whole(memory);
  }

  [[nodiscard]] Allocation allocate(std::size_t bytes, StreamRef stream) {
    Allocation block = memory.allocate(bytes, stream);
    write(block, stream);
    return block;
  }
  void write(const Allocation& block, StreamRef stream) {
    runtime->copier().fill_async(block.data(), 1, block.bytes(), stream);
  }
  /// Caches a block for a stream; returns where it was. Its write is pending.
  const void* cache(std::size_t bytes, StreamRef stream) { return allocate(bytes, stream).data(); }
  /// The same with the stream idle afterwards.
  const void* leave(std::size_t bytes, StreamRef stream) {
    const void* const data = cache(bytes, stream);
    stream.sync();
    return data;
  }
  /// Caches every second of `count` blocks of 1 MiB, and keeps the others: no granule of 2 MiB of
  /// them is free as a whole.
  void leave_holes(std::size_t count, StreamRef stream) {
    std::vector<Allocation> row;
    while (row.size() < count) row.push_back(allocate(1_MiB, stream));
    for (std::size_t index = 0; index < count; index += 2) walls.push_back(std::move(row[index]));
    row.clear();
    stream.sync();
  }

  [[nodiscard]] std::uint64_t questions() const {
    return driver_calls(*runtime, "cuStreamQuery") + driver_calls(*runtime, "cuEventQuery");
  }
  [[nodiscard]] std::uint64_t reserved() const { return counters().bytes_reserved.current; }

  std::vector<Allocation> walls;
};

}  // namespace berth::test
