// SPDX-License-Identifier: Apache-2.0
// How much may be reserved, after every operation, whatever the program does: no more than the most
// granules that could not be used as a whole at one time, and one granule. A granule cannot if it
// has a live byte, or free bytes of several streams. So what threads keep, holes and free ends
// never make the allocator reserve more: it grows only where all of that is used up.
//
// Holds where memory is mapped in granules and no work is pending. Work that is pending keeps the
// free memory of its stream from others until it is done, which comes on top.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "model/random_program.hpp"
#include "support/simulation.hpp"

namespace reserved_bound_model_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranuleBytes = 2_MiB;
constexpr std::size_t kMarginBytes = kGranuleBytes;
const Device kDevice = Device::cuda(0);

std::size_t granules_not_whole(const MemorySnapshot& snapshot) {
  std::set<std::uintptr_t> granules;
  for (const SegmentInfo& segment : snapshot.segments) {
    for (const BlockInfo& block : segment.blocks) {
      const std::uintptr_t first = block.address / kGranuleBytes;
      const std::uintptr_t last = (block.address + block.bytes - 1) / kGranuleBytes;
      if (block.state == BlockState::free) {  // those in its middle are whole
        if (block.address % kGranuleBytes != 0) granules.insert(first);
        if ((block.address + block.bytes) % kGranuleBytes != 0) granules.insert(last);
      } else {
        for (std::uintptr_t granule = first; granule <= last; ++granule) granules.insert(granule);
      }
    }
  }
  return granules.size();
}

class Program final : public RandomProgram {
 public:
  Program(std::uint64_t seed, std::size_t streams, std::size_t request_max)
      : RandomProgram(seed),
        memory_(simulation_.runtime->memory(kDevice)),
        request_max_(request_max) {
    while (streams_.size() < streams)
      streams_.push_back(simulation_.runtime->create_stream(kDevice));
  }

  void step() {
    // Waves, so that what was live at the peak comes apart below it.
    if (random_.one_in(500)) aim_ = 4 + random_.below(160);
    if (!live_.empty() && random_.below(2 * aim_) < live_.size()) {
      std::swap(live_[random_.below(live_.size())], live_.back());
      live_.pop_back();
    } else {
      const Stream& stream = streams_[random_.below(streams_.size())];
      live_.push_back(memory_.allocate(random_.size_up_to(request_max_), stream));
    }
    check();
  }
  void finish() { live_.clear(); }

 private:
  void check() {
    const MemoryCounters counters = memory_.counters();
    if (counters.allocations_grown != grown_) {
      grown_ = counters.allocations_grown;
      bound_bytes_ = std::max(
          bound_bytes_, granules_not_whole(memory_.snapshot()) * kGranuleBytes + kMarginBytes);
    }
    CHECK(counters.bytes_reserved.current <= bound_bytes_);
  }

  Simulation simulation_;
  DeviceAllocator& memory_;
  const std::size_t request_max_;
  std::vector<Stream> streams_;
  std::vector<Allocation> live_;
  std::size_t aim_ = 60;
  std::uint64_t grown_ = 0;
  std::size_t bound_bytes_ = 0;
};

void stays_within_bound(std::size_t streams, std::size_t request_max) {
  for_each_seed([&](std::uint64_t seed) {
    Program program(seed, streams, request_max);
    run_to_the_end(program, operations(8000));
  });
}

}  // namespace

TEST_CASE("random requests on one stream: reserved bytes stay within their bound") {
  stays_within_bound(1, 4_MiB);
  stays_within_bound(1, 64_MiB);
}

TEST_CASE("random requests on several idle streams: reserved bytes stay within their bound") {
  stays_within_bound(4, 4_MiB);
  stays_within_bound(4, 64_MiB);
}

}  // namespace reserved_bound_model_test
