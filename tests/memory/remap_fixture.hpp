// SPDX-License-Identifier: Apache-2.0
// A small device that is full of small holes, so that requests are served by page remap, and
// callers that write each block from end to end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/copier.hpp"

#include "memory/memory_fixture.hpp"
#include "support/device_bytes.hpp"

namespace berth::test {

class RemapTest : public MemoryTest {
 public:
  static constexpr std::size_t kGranule = 2_MiB;
  static constexpr std::size_t kDeviceGranules = 32;
  static constexpr std::size_t kDeviceBytes = kDeviceGranules * kGranule;

  explicit RemapTest(sim::Progress progress = sim::Progress::manual)
      : MemoryTest(small_device(kDeviceBytes, progress)) {}
  ~RemapTest() { check_whole(memory); }

  /// Writes the whole of a block, on its stream, with a value of its own.
  void write(const Allocation& block, StreamRef stream) {
    const auto value = static_cast<unsigned char>(1 + ++last_value_ % 255);
    forget(block);
    runtime->copier().fill_async(block.data(), value, block.bytes(), stream);
    written_.push_back({address_of(block.data()), block.bytes(), value});
  }
  Allocation allocate(std::size_t bytes, StreamRef stream) {
    Allocation block = memory.allocate(bytes, stream);
    check_whole(memory);
    write(block, stream);
    return block;
  }
  void free(Allocation& block) {
    forget(block);
    block.reset();
    check_whole(memory);
  }
  /// Whether each live block still has the bytes that were written to it.
  [[nodiscard]] bool all_hold() {
    simulator.run_all();
    return std::ranges::all_of(written_, [&](const Written& block) {
      return holds(simulator, block.address, block.bytes, block.value);
    });
  }

  /// Takes `count` granules, one by one, and frees every second of them.
  void make_holes(std::size_t count, StreamRef stream) {
    std::vector<Allocation> row;
    for (std::size_t index = 0; index < count; ++index) row.push_back(allocate(kGranule, stream));
    for (std::size_t index = 0; index < count; ++index) {
      if (index % 2 == 1)
        free(row[index]);
      else
        walls.push_back(std::move(row[index]));
    }
  }
  [[nodiscard]] std::uint64_t reserved() const { return counters().bytes_reserved.current; }
  [[nodiscard]] std::uint64_t granules_created() const { return simulator.calls("cuMemCreate"); }

  std::vector<Allocation> walls;

 private:
  struct Written {
    std::uintptr_t address;
    std::size_t bytes;
    unsigned char value;
  };
  void forget(const Allocation& block) {
    std::erase_if(written_,
                  [&](const Written& each) { return each.address == address_of(block.data()); });
  }

  std::vector<Written> written_;
  unsigned last_value_ = 0;
};

/// What a snapshot says of the allocation at `data`, in the order of its bytes.
inline std::vector<BlockInfo> blocks_at(const MemorySnapshot& snapshot, const void* data,
                                        std::size_t bytes) {
  std::vector<BlockInfo> blocks;
  for (const SegmentInfo& segment : snapshot.segments) {
    for (const BlockInfo& block : segment.blocks) {
      if (block.data - address_of(data) < bytes) blocks.push_back(block);
    }
  }
  std::ranges::sort(blocks, {}, &BlockInfo::data);
  return blocks;
}

}  // namespace berth::test
