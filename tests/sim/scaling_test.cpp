// SPDX-License-Identifier: Apache-2.0
// What the simulator does for much pending work grows with the work: counted, not timed.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/check/clock.hpp"
#include "sim/check/late_order.hpp"
#include "sim/flag.hpp"
#include "sim/sim_fixture.hpp"
#include "sim/state.hpp"
#include "support/thinned.hpp"

namespace scaling_test {

using namespace berth;
using namespace berth::test;

namespace {

/// What has been done so far.
struct Effort {
  std::uint64_t heads;  ///< looks whether the head of a stream may run
  std::uint64_t joins;  ///< nodes of clocks compared
  std::uint64_t lates;  ///< lanes in which waits for values were looked for
};

Effort effort() {
  const MutexLock lock(sim::mutex);
  return {sim::installed_state()->scheduler.heads_examined(), sim::Clock::nodes_joined(),
          sim::LateOrder::lanes_examined()};
}

struct Cost {
  std::uint64_t heads;
  std::uint64_t joins;
  std::size_t nodes;  ///< of clocks, while the work is pending
};

/// Eight times the work may cost twelve times as much, by a logarithm.
bool is_in_proportion(std::uint64_t of_few, std::uint64_t of_many) {
  return of_many <= 12 * of_few + 500;
}

/// A batch of `count` copies, a second one before anything is known of the first, and a third one.
Cost cost_of_batches(const std::string& config, std::size_t count,
                     CUmemcpySrcAccessOrder source_order) {
  SimFixture fixture(config);
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(16 * count);
  unsigned char* const pinned = make_pinned(16 * count);
  std::vector<CUdeviceptr> to;
  std::vector<CUdeviceptr> from;
  const std::vector<std::size_t> sizes(count, 16);
  for (std::size_t i = 0; i < count; ++i) {
    to.push_back(memory + 16 * i);
    from.push_back(address_of(pinned + 16 * i));
  }
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = source_order;
  std::size_t first = 0;
  const Effort before = effort();
  const std::size_t nodes = sim::Clock::nodes();
  const auto submit = [&] {
    OK(CU(cuMemcpyBatchAsync)(to.data(), from.data(), const_cast<std::size_t*>(sizes.data()), count,
                              &attributes, &first, 1, stream));
  };
  submit();
  submit();
  const std::size_t nodes_pending = sim::Clock::nodes() - nodes;
  OK(CU(cuStreamSynchronize)(stream));
  submit();
  OK(CU(cuStreamSynchronize)(stream));
  const Effort after = effort();
  return {after.heads - before.heads, after.joins - before.joins, nodes_pending};
}

/// `count` streams in one channel, each with a wait for a value and a fill behind it.
Cost cost_of_streams(const std::string& config, std::size_t count) {
  SimFixture fixture(config);
  const CUdeviceptr memory = make_memory(count);
  Flag<cuuint32_t> flag;
  const std::vector<CUstream> streams = make_streams(count);
  const Effort before = effort();
  const std::size_t nodes = sim::Clock::nodes();
  for (std::size_t i = 0; i < count; ++i) {
    flag.hold(streams[i]);
    OK(CU(cuMemsetD8Async)(memory + i, 1, 1, streams[i]));
  }
  const std::size_t nodes_pending = sim::Clock::nodes() - nodes;
  flag.set(1);
  for (const CUstream stream : streams) OK(CU(cuStreamSynchronize)(stream));
  const Effort after = effort();
  return {after.heads - before.heads, after.joins - before.joins, nodes_pending};
}

/// `count` streams behind one flag, each with a chain of fills behind its wait; and once more when
/// the host has seen the end of that.
Effort effort_of_waits(const std::string& config, std::size_t count) {
  SimFixture fixture(config);
  const CUdeviceptr memory = make_memory(count);
  Flag<cuuint32_t> flag;
  const std::vector<CUstream> streams = make_streams(count);
  const Effort before = effort();
  for (int round = 0; round < 2; ++round) {
    flag.set(0);
    for (std::size_t i = 0; i < count; ++i) {
      flag.hold(streams[i]);
      for (unsigned char value = 0; value < 4; ++value)
        OK(CU(cuMemsetD8Async)(memory + i, value, 1, streams[i]));
    }
    flag.set(1);
    OK(CU(cuCtxSynchronize)());
  }
  CHECK(fixture.sim.take_findings().empty());
  const Effort after = effort();
  return {after.heads - before.heads, after.joins - before.joins, after.lates - before.lates};
}

constexpr const char* kModes[] = {"progress=eager", "progress=manual", "progress=random",
                                  "progress=timed"};

}  // namespace

TEST_CASE("a batch costs as much as its copies") {
  for (const char* mode : kModes) {
    for (const char* checks : {"on", "off"}) {
      for (const auto order :
           {CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL}) {
        CAPTURE(std::string(mode));
        CAPTURE(std::string(checks));
        CAPTURE(static_cast<int>(order));
        const std::string config = fmt::format("memory=64MiB,{},checks={}", mode, checks);
        const Cost few = cost_of_batches(config, 256, order);
        const Cost many = cost_of_batches(config, 2048, order);
        CAPTURE(few.joins);
        CAPTURE(many.joins);
        CHECK(is_in_proportion(few.heads, many.heads));
        CHECK(is_in_proportion(few.joins, many.joins));
        CHECK(is_in_proportion(few.nodes, many.nodes));
      }
    }
  }
}

TEST_CASE("many streams that wait in one channel cost as much as their work") {
  // In eager mode a thread looks at values now and then, by the clock.
  for (const char* mode : {"progress=manual", "progress=timed"}) {
    CAPTURE(std::string(mode));
    const std::string config = fmt::format("memory=64MiB,connections=1,{}", mode);
    const Cost few = cost_of_streams(config, 64);
    const Cost many = cost_of_streams(config, 512);
    CHECK(is_in_proportion(few.heads, many.heads));
    CHECK(is_in_proportion(few.nodes, many.nodes));
  }
}

TEST_CASE("the cost of waits for values is proportional to the work behind them") {
  for (const char* mode : {"progress=manual", "progress=random", "progress=timed"}) {
    CAPTURE(std::string(mode));
    const std::string config = fmt::format("memory=64MiB,connections=off,{}", mode);
    const std::size_t streams = Thinned(4).part_of(256);
    const Effort few = effort_of_waits(config, streams);
    const Effort many = effort_of_waits(config, 8 * streams);
    CAPTURE(few.joins);
    CAPTURE(many.joins);
    CAPTURE(few.lates);
    CAPTURE(many.lates);
    CHECK(few.lates != 0);
    CHECK(is_in_proportion(few.lates, many.lates));
    CHECK(is_in_proportion(few.joins, many.joins));
  }
}

TEST_CASE("clocks share common nodes") {
  sim::Clock base;
  for (sim::Lane lane = 0; lane < 4096; ++lane) base.include({lane, 1});
  const std::size_t nodes = sim::Clock::nodes();
  std::vector<sim::Clock> copies(100, base);
  CHECK(sim::Clock::nodes() == nodes);
  for (sim::Lane lane = 0; lane < copies.size(); ++lane) copies[lane].include({lane * 16, 2});
  CHECK(sim::Clock::nodes() <= nodes + 4 * copies.size());
  CHECK(base.time_of(16) == 1);
  CHECK(copies[1].time_of(16) == 2);
  CHECK(copies[2].time_of(16) == 1);
}

TEST_CASE("a clock has the latest time of each joined clock") {
  // Against arrays: lanes near and far, clocks of every height, copies in between.
  constexpr sim::Lane kLanes[] = {0, 1, 15, 16, 17, 255, 256, 4095, 4096, 70000, 0xffffffff};
  constexpr std::size_t kCount = sizeof kLanes / sizeof kLanes[0];
  struct Model {
    sim::Clock clock;
    std::vector<std::uint64_t> times = std::vector<std::uint64_t>(kCount, 0);
  };
  std::vector<Model> models(6);
  std::uint64_t random = 1;
  const auto below = [&](std::size_t limit) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>(random >> 33) % limit;
  };
  for (int step = 0; step < 4000; ++step) {
    Model& model = models[below(models.size())];
    const std::size_t kind = below(10);
    if (kind == 0) model = Model{};
    if (kind == 1) model = Model(models[below(models.size())]);
    if (kind >= 2 && kind < 6) {
      const std::size_t at = below(kCount);
      const std::uint64_t time = 1 + below(50);
      const bool is_news = time > model.times[at];
      REQUIRE(model.clock.include({kLanes[at], time}) == is_news);
      if (is_news) model.times[at] = time;
    }
    if (kind >= 6) {
      const Model other = models[below(models.size())];
      bool is_news = false;
      for (std::size_t at = 0; at < kCount; ++at) {
        is_news |= other.times[at] > model.times[at];
        model.times[at] = std::max(model.times[at], other.times[at]);
      }
      REQUIRE(model.clock.join(other.clock) == is_news);
    }
    for (const Model& each : models)
      for (std::size_t at = 0; at < kCount; ++at)
        REQUIRE(each.clock.time_of(kLanes[at]) == each.times[at]);
  }
}

}  // namespace scaling_test
