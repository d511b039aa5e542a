// SPDX-License-Identifier: Apache-2.0
// Random programs on the pinned allocator. Blocks are written by the host, copied to the device in
// random order, and freed before the copy has read them: a block that is reused too early is
// overwritten by its next owner, and the device gets the wrong bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "model/random_program.hpp"
#include "support/allocator_checks.hpp"
#include "support/simulation.hpp"

namespace pinned_allocator_model_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kHostBytes = 48_MiB;
constexpr std::size_t kRequestMax = 3_MiB;
constexpr int kDevices = 2;

struct LiveBlock {
  Allocation memory;
  unsigned char value;
};

/// A copy to a device that is under way: what it must bring.
struct Sending {
  Allocation target;
  EventLease done;
  unsigned char value;
};

class Program final : public RandomProgram {
 public:
  explicit Program(std::uint64_t seed)
      : RandomProgram(seed),
        simulation_(config(seed), options()),
        runtime_(*simulation_.runtime),
        memory_(runtime_.pinned_memory()) {
    for (int stream = 0; stream < 4; ++stream)
      streams_.push_back(runtime_.create_stream(Device::cuda(stream % kDevices)));
  }

  void step() {
    static constexpr Operation<Program> kOperations[] = {
        {1, "wait", &Program::wait},
        {1, "rarely", &Program::rarely},
        {1, "refuse strangers", &Program::refuse_strangers},
        {4, "send", &Program::send},
        {17, "allocate or free", &Program::allocate_or_free},
    };
    do_one_of(kOperations);
    if (random_.one_in(100)) filling_ = !filling_;
    verify_finished_sendings();
    check();
  }

  void finish() {
    while (!live_.empty()) free_block();
    for (const Stream& stream : streams_) stream.ref().sync();
    verify_finished_sendings();
    CHECK(sendings_.empty());
    memory_.trim();
    check();
    CHECK(memory_.counters().bytes_reserved.current == 0);
    CHECK(simulation_.simulator.live().host_allocations == 0);
    CHECK(simulation_.simulator.live().host_registrations == 0);
  }

 private:
  static sim::Config config(std::uint64_t seed) {
    sim::Config config;
    config.devices = kDevices;
    config.host_memory = kHostBytes;
    config.progress = sim::Progress::random;
    config.seed = seed;
    return config;
  }
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.pinned_allocator.segment_bytes = 4_MiB;
    return options;
  }

  void wait() { streams_[random_.below(streams_.size())].ref().sync(); }
  void allocate_or_free() {
    if (random_.below(100) < (filling_ ? 60U : 40U)) {
      allocate();
    } else {
      free_block();
    }
  }
  void allocate() {
    const std::size_t bytes = random_.one_in(50) ? 0 : random_.size_up_to(kRequestMax);
    Result<Allocation> result = memory_.try_allocate(bytes);
    if (!result) {
      CHECK(result.error().code() == Errc::out_of_memory);
      ++failures_;
      filling_ = false;
      return;
    }
    Allocation memory = std::move(result).value();
    CHECK(bool(memory) == (bytes > 0));
    if (bytes == 0) return;
    ++allocations_;
    for (const LiveBlock& other : live_)
      CHECK_FALSE(overlap(memory.data(), bytes, other.memory.data(), other.memory.bytes()));
    const unsigned char value = random_.byte();
    std::memset(memory.data(), value, bytes);
    live_.push_back({std::move(memory), value});
  }

  void free_block() {
    if (live_.empty()) return;
    std::swap(live_[random_.below(live_.size())], live_.back());
    const auto* const bytes = static_cast<const unsigned char*>(live_.back().memory.data());
    CHECK(std::all_of(bytes, bytes + live_.back().memory.bytes(),
                      [&](unsigned char byte) { return byte == live_.back().value; }));
    live_.pop_back();
    ++frees_;
  }

  /// Copies a block, or a part of it, to a device; the copier records its stream.
  void send() {
    if (live_.empty()) return;
    const LiveBlock& block = live_[random_.below(live_.size())];
    const std::size_t offset = random_.below(block.memory.bytes());
    const std::size_t bytes = 1 + random_.below(block.memory.bytes() - offset);
    const auto* const source = static_cast<const unsigned char*>(block.memory.data()) + offset;
    CHECK(memory_.find_block(source) == block.memory.data());
    const Stream& stream = streams_[random_.below(streams_.size())];
    DeviceAllocator& device_memory = runtime_.memory(stream.ref().device());
    Allocation target = device_memory.allocate(bytes, stream);
    runtime_.copier().copy_async(target.data(), source, bytes, stream);
    sendings_.push_back({std::move(target), runtime_.record(stream), block.value});
  }

  void rarely() {
    static constexpr Operation<Program> kOperations[] = {
        {1, "trim", &Program::trim},
        {1, "trim a part", &Program::trim_part},
        {1, "reset the peaks", &Program::reset_peaks},
        {1, "replace a stream", &Program::replace_stream},
    };
    do_one_of(kOperations);
  }
  void trim() { memory_.trim(); }
  void trim_part() { memory_.trim(random_.below(kHostBytes)); }
  void reset_peaks() { memory_.reset_peaks(); }
  void replace_stream() {
    Stream& stream = streams_[random_.below(streams_.size())];
    stream = runtime_.create_stream(stream.ref().device());
  }

  void refuse_strangers() {
    int on_stack = 0;
    CHECK_THROWS_AS(memory_.deallocate(&on_stack), InvalidArgument);
    CHECK(memory_.find_block(&on_stack) == nullptr);
    if (live_.empty()) return;
    const Allocation& block = live_[random_.below(live_.size())].memory;
    if (block.bytes() == 1) return;
    void* const inside = static_cast<char*>(block.data()) + 1 + random_.below(block.bytes() - 1);
    CHECK_THROWS_AS(memory_.deallocate(inside), InvalidArgument);
  }

  void verify_finished_sendings() {
    std::erase_if(sendings_, [this](const Sending& sending) {
      if (!sending.done->is_done()) return false;
      const auto content =
          simulation_.simulator.peek(address_of(sending.target.data()), sending.target.bytes());
      CHECK(content.size() == sending.target.bytes());
      CHECK(
          std::ranges::all_of(content, [&](unsigned char byte) { return byte == sending.value; }));
      return true;
    });
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
    CHECK(counters.bytes_reserved.current <= kHostBytes);
  }

  Simulation simulation_;
  Runtime& runtime_;
  PinnedAllocator& memory_;
  bool filling_ = true;
  std::vector<Stream> streams_;
  std::vector<LiveBlock> live_;
  std::vector<Sending> sendings_;
  std::uint64_t allocations_ = 0;
  std::uint64_t frees_ = 0;
  std::uint64_t failures_ = 0;
};

}  // namespace

TEST_CASE("a random program never sends bytes of a pinned block's next owner") {
  for_each_seed([](std::uint64_t seed) {
    Program program(seed);
    run_to_the_end(program, operations(1500));
  });
}

}  // namespace pinned_allocator_model_test
