// SPDX-License-Identifier: Apache-2.0
// Random programs whose requests are served by page remap.
#include <cstdint>
#include <deque>
#include <utility>

#include <doctest/doctest.h>

#include "memory/remap_fixture.hpp"
#include "model/random_program.hpp"

namespace page_remap_random_test {

using namespace berth;
using namespace berth::test;

namespace {

class Program final : public RandomProgram {
 public:
  Program(std::uint64_t seed, sim::Progress progress) : RandomProgram(seed), test_(progress) {}

  void step() {
    static constexpr Operation<Program> kOperations[] = {
        {3, "allocate", &Program::allocate},
        {2, "free", &Program::free_some},
    };
    do_one_of(kOperations);
    if (steps_++ % 20 == 0) REQUIRE(test_.all_hold());
  }
  void finish() {
    CHECK(test_.counters().page_remaps > 100);
    CHECK(failures_ > 10);
    for (Allocation& block : live_) test_.free(block);
    test_.memory.trim();
    CHECK(test_.simulator.live().mappings == 0);
    CHECK(test_.simulator.device_bytes_used(0) == 0);
  }

 private:
  void allocate() {
    const Stream& stream = streams_[random_.one_in(4) ? 1 : 0];
    const std::size_t bytes = 1 + random_.below(random_.one_in(4) ? 24_MiB : 3_MiB);
    Result<Allocation> block = test_.memory.try_allocate(bytes, stream);
    if (block.ok()) {
      live_.push_back(std::move(block).value());
      test_.write(live_.back(), stream);
    } else if (++failures_ > 0 && !live_.empty()) {
      test_.free(live_.front());
      live_.pop_front();
    }
  }
  void free_some() {
    if (live_.empty()) return;
    std::swap(live_[random_.below(live_.size())], live_.back());
    test_.free(live_.back());
    live_.pop_back();
  }

  RemapTest test_;
  const Stream streams_[2] = {test_.stream(), test_.stream()};
  std::deque<Allocation> live_;
  std::uint64_t failures_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace

TEST_CASE("random programs on two streams keep every byte, and give everything back") {
  for (const auto progress : {sim::Progress::eager, sim::Progress::random}) {
    Program program(11, progress);
    run_to_the_end(program, 600);
  }
}

}  // namespace page_remap_random_test
