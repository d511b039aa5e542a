// SPDX-License-Identifier: Apache-2.0
// A request is refused only where all that is free, wherever it is, would not hold it. Memory can
// be moved to where it is needed in granules, and of one that is partly live the free end can be
// used too, by a second mapping. So there are two claims, of which the second says more:
//
//   granules  a request takes bytes / granule of them, rounded up. Refused: there are not that many
//             granules without a live byte, those that are not reserved included.
//   ends      it may begin in the free end of a granule and end in the free beginning of another.
//             Refused: the longest of each and all granules without a live byte are too short.
//
// Pending work keeps no memory from being free: the last rung waits for it. Neither claim counts
// holes inside one granule that reach none of its ends, nor joins a third piece, so that what they
// ask for can be served whatever the layout.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "model/random_program.hpp"
#include "support/allocator_checks.hpp"
#include "support/reuse_policies.hpp"
#include "support/simulation.hpp"

namespace refusal_model_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranuleBytes = 2_MiB;
const Device kDevice = Device::cuda(0);

enum class Claim { granules, ends };

/// Where memory of the device is free, by granule.
class FreeSpace {
 public:
  FreeSpace(const MemorySnapshot& snapshot, std::size_t bytes_unreserved)
      : granules_(bytes_unreserved / kGranuleBytes) {
    for (const SegmentInfo& segment : snapshot.segments) {
      std::uintptr_t start = segment.address;  // of the run of blocks that are not live
      for (const BlockInfo& block : segment.blocks) {
        if (block.state != BlockState::allocated) continue;
        add_run(start, block.address);
        start = block.address + block.bytes;
      }
      add_run(start, segment.address + segment.bytes);
    }
  }

  /// The longest request that `claim` says is served.
  [[nodiscard]] std::size_t bytes_served(Claim claim) const {
    const std::size_t whole = granules_ * kGranuleBytes;
    return claim == Claim::granules ? whole : last_bytes_ + whole + first_bytes_;
  }

 private:
  void add_run(std::uintptr_t start, std::uintptr_t end) {
    const std::uintptr_t first_whole = (start + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes;
    const std::uintptr_t last_whole = end / kGranuleBytes * kGranuleBytes;
    if (first_whole > last_whole) return;  // inside one granule
    granules_ += (last_whole - first_whole) / kGranuleBytes;
    last_bytes_ = std::max<std::size_t>(last_bytes_, first_whole - start);
    first_bytes_ = std::max<std::size_t>(first_bytes_, end - last_whole);
  }

  std::size_t granules_;         // without a live byte
  std::size_t last_bytes_ = 0;   // the most that are free at the end of a granule
  std::size_t first_bytes_ = 0;  // and at the beginning
};

class Program final : public RandomProgram {
 public:
  Program(Claim claim, std::uint64_t seed, sim::Progress progress, std::size_t device_bytes,
          CrossStreamReuse reuse)
      : RandomProgram(seed),
        claim_(claim),
        device_bytes_(device_bytes),
        simulation_(config(seed, progress, device_bytes), options(reuse)),
        runtime_(*simulation_.runtime),
        memory_(runtime_.memory(kDevice)) {
    for (int stream = 0; stream < 3; ++stream) streams_.push_back(runtime_.create_stream(kDevice));
  }

  /// Fills the device until it is full, with a free now and then, frees some, and so on.
  void step() {
    if (!live_.empty() && (frees_due_ > 0 || random_.one_in(5))) {
      free_block();
      if (frees_due_ > 0) --frees_due_;
    } else {
      allocate();
    }
  }

  void finish() {
    while (!live_.empty()) free_block();
    simulation_.simulator.run_all();
    CHECK(refusals_ > 0);
  }

 private:
  struct LiveBlock {
    Allocation memory;
    StreamRef stream;
  };

  static sim::Config config(std::uint64_t seed, sim::Progress progress, std::size_t device_bytes) {
    sim::Config config;
    config.memory = {device_bytes};
    config.progress = progress;
    config.seed = seed;
    return config;
  }

  static RuntimeOptions options(CrossStreamReuse reuse) {
    RuntimeOptions options;
    options.device_allocator.cross_stream_reuse = reuse;
    return options;
  }

  [[nodiscard]] StreamRef some_stream() { return streams_[random_.below(streams_.size())].ref(); }

  void allocate() {
    const std::size_t bytes = random_.size_up_to(device_bytes_ / 4);
    const StreamRef stream = some_stream();
    Result<Allocation> result = memory_.try_allocate(bytes, stream);
    if (!result) {
      REQUIRE(result.error().code() == Errc::out_of_memory);
      ++refusals_;
      check_refusal(bytes);
      frees_due_ = random_.below(live_.size() + 1);
      return;
    }
    Allocation memory = std::move(result).value();
    work_on(memory, stream);
    live_.push_back({std::move(memory), stream});
  }

  /// Half of the blocks are used by another stream to the last.
  void free_block() {
    std::swap(live_[random_.below(live_.size())], live_.back());
    const LiveBlock block = std::move(live_.back());
    live_.pop_back();
    if (random_.one_in(2)) return;
    const StreamRef user = some_stream();
    user.wait(runtime_.record(block.stream));
    work_on(block.memory, user);
    if (random_.one_in(2)) {
      block.memory.record_use(user);
    } else {
      block.memory.record_stream(user);
    }
  }

  /// The first bytes will do: what matters is that something is pending.
  void work_on(const Allocation& memory, StreamRef stream) {
    runtime_.copier().fill_async(memory.data(), random_.byte(), 1, stream);
  }

  void check_refusal(std::size_t bytes) const {
    const MemorySnapshot snapshot = memory_.snapshot();
    const std::size_t bytes_used = simulation_.simulator.device_bytes_used(0);
    CHECK(bytes_used == snapshot.counters.bytes_reserved.current);  // nobody else uses the device
    const FreeSpace space(snapshot, device_bytes_ - bytes_used);
    CAPTURE(bytes);
    CAPTURE(snapshot.counters.blocks_pending.current);
    REQUIRE(space.bytes_served(claim_) < bytes);
    REQUIRE(snapshot.largest_free_block_bytes < bytes);
  }

  Claim claim_;
  std::size_t device_bytes_;
  Simulation simulation_;
  Runtime& runtime_;
  DeviceAllocator& memory_;
  std::vector<Stream> streams_;
  std::vector<LiveBlock> live_;
  std::size_t frees_due_ = 0;
  std::uint64_t refusals_ = 0;
};

void run_programs(Claim claim, std::uint64_t seed, CrossStreamReuse reuse) {
  for (const auto progress : {sim::Progress::eager, sim::Progress::manual, sim::Progress::random})
    for (const std::size_t device_bytes : {64_MiB, 128_MiB, 256_MiB}) {
      CAPTURE(int(progress));
      CAPTURE(device_bytes);
      Program program(claim, seed, progress, device_bytes, reuse);
      run_to_the_end(program, operations(1000));
    }
}

void run_programs(Claim claim) {
  for_each_seed([claim](std::uint64_t seed) {
    with_each_reuse([&](CrossStreamReuse reuse) { run_programs(claim, seed, reuse); });
  });
}

}  // namespace

TEST_CASE("a random program is refused memory only if all free granules are not enough") {
  run_programs(Claim::granules);
}

TEST_CASE("a program is refused memory only if free granules and free ends are not enough") {
  run_programs(Claim::ends);
}

}  // namespace refusal_model_test
