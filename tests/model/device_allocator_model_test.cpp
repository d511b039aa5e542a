// SPDX-License-Identifier: Apache-2.0
// Random programs on the device allocator against a naive model. Streams run their work in random
// order, so memory that is handed out too early is written by two streams at once, and somebody
// reads bytes that are not his.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "model/allocator_program.hpp"
#include "model/random.hpp"
#include "model/run_to_the_end.hpp"
#include "support/allocator_checks.hpp"
#include "support/reuse_policies.hpp"
#include "support/simulation.hpp"

namespace device_allocator_model_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kDeviceBytes = 96_MiB;
constexpr std::size_t kGranuleBytes = 2_MiB;
constexpr std::size_t kRequestMax = 6_MiB;

struct LiveBlock : ProgramBlock {
  unsigned char value;  ///< of every byte, once pending work is done
};

class Program final : public AllocatorProgram {
 public:
  Program(std::uint64_t seed, bool virtual_memory, CrossStreamReuse reuse)
      : AllocatorProgram(seed, kDeviceBytes, options(virtual_memory, reuse)),
        virtual_memory_(virtual_memory),
        reuse_(reuse) {}

  void step() {
    switch (random_.below(24)) {
      case 0:
        use_elsewhere();
        break;
      case 1:
        use_elsewhere();
        break;
      case 2:
        write_elsewhere();
        break;
      case 3:
        record_own_stream();
        break;
      case 4:
        some_stream()->ref.sync();
        break;
      case 5:
        rarely();
        break;
      case 6:
        refuse_strangers();
        break;
      default:
        // Drifts between a nearly full and a nearly empty device.
        if (random_.below(100) < (filling_ ? 60U : 40U)) {
          allocate();
        } else {
          free_block();
        }
    }
    if (random_.one_in(150)) filling_ = !filling_;
    verify_finished_readings();
    check();
  }

  void finish() {
    while (!live_.empty()) free_block();
    settle_all();
    memory_.set_limits({});
    memory_.trim();
    check();
    CHECK(memory_.counters().bytes_reserved.current == 0);
    CHECK(simulation_.simulator.device_bytes_used(0) == 0);
    CHECK(allocations_ > 0);
  }

 private:
  static RuntimeOptions options(bool virtual_memory, CrossStreamReuse reuse) {
    RuntimeOptions options;
    options.device_allocator.virtual_memory = virtual_memory;
    options.device_allocator.cross_stream_reuse = reuse;
    return options;
  }

  [[nodiscard]] LiveBlock& some_block() { return live_[random_.below(live_.size())]; }

  void allocate() {
    const std::size_t bytes = random_.one_in(50) ? 0 : random_.size_up_to(kRequestMax);
    const auto stream = some_stream();
    const bool must_fit = fits_for_certain(bytes);
    Result<Allocation> result = memory_.try_allocate(bytes, stream->ref);
    if (!result) {
      CHECK(result.error().code() == Errc::out_of_memory);
      CHECK_FALSE(must_fit);
      ++failures_;
      filling_ = false;
      return;
    }
    Allocation memory = std::move(result).value();
    CHECK(memory.bytes() == bytes);
    CHECK(bool(memory) == (bytes > 0));
    if (bytes == 0) return;
    ++allocations_;
    for (const LiveBlock& other : live_)
      CHECK_FALSE(overlap(memory.data(), bytes, other.memory.data(), other.memory.bytes()));
    const unsigned char value = random_.byte();
    runtime_.copier().fill_async(memory.data(), value, bytes, stream->ref);
    live_.push_back({{std::move(memory), stream, nullptr}, value});
  }

  /// Whether a request succeeds however fragmented memory is: every live block spoils at most one
  /// granule more than its bytes fill, and every other granule can be had.
  [[nodiscard]] bool fits_for_certain(std::size_t bytes) const {
    if (!virtual_memory_) return false;
    const auto granules = [](std::size_t size) { return size / kGranuleBytes + 2; };
    std::size_t needed = granules(bytes);
    for (const LiveBlock& block : live_) needed += granules(block.memory.bytes());
    return needed * kGranuleBytes <= limit_.value_or(kDeviceBytes);
  }

  void free_block() {
    if (live_.empty()) return;
    std::swap(some_block(), live_.back());
    LiveBlock block = std::move(live_.back());
    live_.pop_back();
    read_at_the_end(block, block.value);
    block.memory.reset();
    ++frees_;
  }

  /// Another stream reads a block; the block may be freed before it gets there.
  void use_elsewhere() {
    if (live_.empty()) return;
    const LiveBlock& block = some_block();
    const auto user = some_stream();
    wait_for_block(block, *user);
    read(block, block.value, *user);
  }

  /// Another stream writes a block, and the block's own stream waits for it.
  void write_elsewhere() {
    if (live_.empty()) return;
    LiveBlock& block = some_block();
    if (block.last_work) return;
    const auto user = some_stream();
    wait_for_block(block, *user);
    wait_for_readings(user->ref);
    block.value = random_.byte();
    runtime_.copier().fill_async(block.memory.data(), block.value, block.memory.bytes(), user->ref);
    record(block.memory, user->ref);
    block.stream->ref.wait(runtime_.record(user->ref));
  }

  void record_own_stream() {
    if (live_.empty()) return;
    const LiveBlock& block = some_block();
    if (!block.last_work) record(block.memory, block.stream->ref);
  }

  void rarely() {
    switch (random_.below(6)) {
      case 0:
        replace_stream(random_.below(streams_.size()), live_);
        break;
      case 1:
        memory_.trim();
        break;
      case 2:
        memory_.trim(random_.below(kDeviceBytes));
        break;
      case 3:
        change_limit();
        break;
      case 4:
        memory_.reset_peaks();
        break;
      default:
        simulation_.simulator.run_all();
    }
  }

  void change_limit() {
    limit_.reset();
    if (random_.below(2) == 0) limit_ = kDeviceBytes / 2 + random_.below(kDeviceBytes / 2);
    memory_.set_limits({.bytes_reserved_max = limit_});
    if (limit_) memory_.trim(*limit_);
  }

  void refuse_strangers() {
    int on_stack = 0;
    CHECK_THROWS_AS(memory_.deallocate(&on_stack), InvalidArgument);
    if (live_.empty()) return;
    const Allocation& block = some_block().memory;
    void* const inside = static_cast<char*>(block.data()) + 1 + random_.below(block.bytes());
    void* const before = static_cast<char*>(block.data()) - 1;
    CHECK_THROWS_AS(memory_.record_stream(before, streams_[0]->ref), InvalidArgument);
    CHECK_THROWS_AS(memory_.record_use(before, streams_[0]->ref), InvalidArgument);
    const bool is_next_block = std::ranges::any_of(
        live_, [inside](const LiveBlock& other) { return other.memory.data() == inside; });
    if (!is_next_block) CHECK_THROWS_AS(memory_.deallocate(inside), InvalidArgument);
  }

  void check() const {
    check_whole(memory_);
    std::uint64_t requested = 0;
    for (const LiveBlock& block : live_) requested += block.memory.bytes();
    const MemoryCounters counters = memory_.counters();
    CHECK(counters.bytes_requested.current == requested);
    CHECK(counters.blocks_allocated.current == live_.size());
    CHECK(counters.allocations == allocations_);
    CHECK(counters.frees == frees_);
    CHECK(counters.out_of_memory == failures_);
    CHECK(counters.frees_reclaimed + counters.blocks_pending.current == counters.frees_deferred);
    CHECK(counters.bytes_reserved.current <= kDeviceBytes);
    if (reuse_ < CrossStreamReuse::behind_waits) CHECK(counters.stream_waits_inserted == 0);
  }

  const bool virtual_memory_;
  const CrossStreamReuse reuse_;
  std::vector<LiveBlock> live_;
  std::uint64_t allocations_ = 0;
  std::uint64_t frees_ = 0;
  std::uint64_t failures_ = 0;
};

std::uint64_t run_program(std::uint64_t seed, bool virtual_memory, CrossStreamReuse reuse,
                          std::uint64_t count) {
  Program program(seed, virtual_memory, reuse);
  return run_to_the_end(program, count);
}

}  // namespace

TEST_CASE("a random program never shares memory, loses bytes or breaks a sum") {
  for_each_seed([](std::uint64_t seed) {
    for (const bool virtual_memory : {true, false}) {
      CAPTURE(seed);
      CAPTURE(virtual_memory);
      with_each_reuse([&](CrossStreamReuse reuse) {
        run_program(seed, virtual_memory, reuse, operations(1500));
      });
    }
  });
}

TEST_CASE("the same seed is the same run") {
  const std::uint64_t seed = first_seed();
  CAPTURE(seed);
  const auto run = [](std::uint64_t of) {
    return run_program(of, true, CrossStreamReuse::behind_waits, 300);
  };
  CHECK(run(seed) == run(seed));
  CHECK(run(seed) != run(seed + 1));
}

}  // namespace device_allocator_model_test
