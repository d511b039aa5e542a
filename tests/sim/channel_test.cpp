// SPDX-License-Identifier: Apache-2.0
// Hardware channels that streams share: which waits block them, which streams share one, and
// programs whose progress depends on the assignment.
#include <optional>
#include <set>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "sim/flag.hpp"
#include "sim/graph_fixture.hpp"
#include "sim/sim_fixture.hpp"
#include "support/environment.hpp"

namespace channel_test {

using namespace berth;
using namespace berth::test;

namespace {

struct OneChannel : SimFixture {
  OneChannel() : SimFixture("memory=64MiB,devices=2,progress=manual,connections=1") {}
};

std::string config(const std::string& options) {
  return "memory=64MiB,progress=manual," + options;
}

void fill(CUstream stream, CUdeviceptr memory, unsigned char value = 1) {
  OK(CU(cuMemsetD8Async)(memory, value, 1, stream));
}

/// Whether work that `later` is given once `earlier` waits for a value is held up by that.
bool share_a_channel(sim::Simulator& sim, CUstream earlier, CUstream later) {
  Flag<cuuint32_t> flag;
  flag.hold(earlier);
  REQUIRE(sim.launch(later, 1));
  const bool shares = !sim.run_next(later);
  flag.set(1);
  CHECK(sim.run_next(earlier));
  CHECK(sim.run_next(later) == shares);
  return shares;
}

/// One finding, which says so.
bool found_shared_channel(sim::Simulator& sim) {
  const std::vector<std::string> findings = sim.take_findings();
  return findings.size() == 1 && findings[0].starts_with("shared channel: ");
}

}  // namespace

TEST_CASE_FIXTURE(OneChannel, "a wait for a value blocks later work of its channel") {
  const CUstream waiter = make_stream();
  const CUstream other = make_stream();
  const CUdeviceptr memory = make_memory(2);
  Flag<cuuint32_t> flag;
  fill(other, memory);
  flag.hold(waiter);
  fill(other, memory + 1);
  CHECK(sim.run_next(other));
  CHECK_FALSE(sim.run_next(other));
  CHECK_FALSE(sim.run_next(waiter));
  CHECK(sim.pending_operations(other) == 1);
  flag.set(1);
  CHECK_FALSE(sim.run_next(other));
  CHECK(sim.run_next(waiter));
  CHECK(sim.run_next(other));
}

TEST_CASE_FIXTURE(OneChannel, "without a wait for a value the streams of a channel are free") {
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUstream third = make_stream();
  const CUdeviceptr memory = make_memory(3);
  fill(first, memory);
  order(first, second);
  fill(second, memory + 1);
  fill(third, memory + 2);
  CHECK(sim.run_next(third));
  CHECK_FALSE(sim.run_next(second));
  sim.run_all();
}

TEST_CASE("a wait for an event behind a value blocks its channel, too") {
  SimFixture fixture(config("connections=2"));
  const CUstream waiter = make_stream();    // channel 1; the legacy stream has channel 0
  const CUstream follower = make_stream();  // channel 0
  const CUstream alone = make_stream();     // channel 1
  const CUstream beside = make_stream();    // channel 0
  const CUdeviceptr memory = make_memory(2);
  Flag<cuuint32_t> flag;
  fill(alone, memory);
  flag.hold(waiter);
  order(waiter, follower);
  fill(beside, memory + 1);
  CHECK_FALSE(fixture.sim.run_next(beside));
  CHECK(fixture.sim.run_next(alone));
  flag.set(1);
  fixture.sim.run_all();
  CHECK(fixture.sim.pending_operations(beside) == 0);
}

TEST_CASE("streams are assigned to the channels of their context in turn") {
  SimFixture fixture(config("connections=3"));
  std::vector<CUstream> streams = {CU_STREAM_LEGACY};
  while (streams.size() < 9) streams.push_back(make_stream());
  for (std::size_t i = 2; i < streams.size(); ++i) {
    CAPTURE(i);
    CHECK(share_a_channel(fixture.sim, streams[1], streams[i]) == (i % 3 == 1));
    CHECK(share_a_channel(fixture.sim, streams[0], streams[i]) == (i % 3 == 0));
  }
}

TEST_CASE("CUDA_DEVICE_MAX_CONNECTIONS sets the number of channels, 8 by default") {
  struct Case {
    std::optional<std::string> variable;
    const char* option;
    std::size_t channels;  ///< as many streams have one each
  };
  const Case cases[] = {{std::nullopt, "", 8},
                        {"1", "", 1},
                        {"2", "", 2},
                        {"0", "", 8},
                        {"33", "", 8},
                        {"two", "", 8},
                        {"", "", 8},
                        {"2", ",connections=3", 3},
                        {"1", ",connections=auto", 1}};
  for (const Case& c : cases) {
    CAPTURE(std::string(c.option));
    CAPTURE(c.channels);
    const ScopedEnvironment environment("CUDA_DEVICE_MAX_CONNECTIONS", c.variable);
    SimFixture fixture(fmt::format("memory=64MiB,progress=manual{}", c.option));
    const std::vector<CUstream> streams = make_streams(c.channels + 1);
    for (std::size_t i = 1; i < streams.size(); ++i)
      CHECK(share_a_channel(fixture.sim, streams[0], streams[i]) == (i == c.channels));
  }
}

TEST_CASE("without channels no stream blocks another") {
  SimFixture fixture(config("connections=off"));
  const CUstream first = make_stream();
  for (int i = 0; i < 40; ++i) CHECK_FALSE(share_a_channel(fixture.sim, first, make_stream()));
}

TEST_CASE_FIXTURE(OneChannel, "contexts do not share channels") {
  const CUstream waiter = make_stream();
  Flag<cuuint32_t> flag;
  flag.hold(waiter);
  OK(CU(cuCtxSetCurrent)(retain(1)));
  const CUstream other = make_stream();
  fill(other, make_memory(1));
  CHECK(sim.run_next(other));
  flag.set(1);
}

TEST_CASE("in random mode the seed assigns the channels") {
  std::set<std::string> assignments;
  for (int seed = 1; seed <= 12; ++seed) {
    const auto assignment = [&] {
      SimFixture fixture(fmt::format("memory=64MiB,progress=random,connections=2,seed={}", seed));
      const CUstream waiter = make_stream();
      std::string shares;
      for (int i = 0; i < 6; ++i) {
        const CUstream other = make_stream();
        Flag<cuuint32_t> flag;
        flag.hold(waiter);
        REQUIRE(fixture.sim.launch(other, 1));
        fixture.sim.run_next(other);
        shares += fixture.sim.pending_operations(other) == 0 ? '-' : 's';
        flag.set(1);
        OK(CU(cuCtxSynchronize)());
      }
      return shares;
    };
    const std::string first = assignment();
    CHECK(assignment() == first);
    assignments.insert(first);
  }
  CHECK(assignments.size() > 4);
}

TEST_CASE_FIXTURE(OneChannel, "a graph uses the channel of the launching stream") {
  const CUdeviceptr memory = make_memory(1);
  const CUgraphExec exec = make_executable(capture([&](CUstream stream) { fill(stream, memory); }));
  const CUstream waiter = make_stream();
  const CUstream launches = make_stream();
  Flag<cuuint32_t> flag;
  OK(CU(cuGraphLaunch)(exec, launches));
  flag.hold(waiter);
  OK(CU(cuGraphLaunch)(exec, launches));
  while (sim.run_next(launches)) continue;
  CHECK(sim.pending_operations(launches) == 2);
  flag.set(1);
  sim.run_all();
  CHECK(sim.pending_operations(launches) == 0);
}

TEST_CASE_FIXTURE(OneChannel, "a source read out of stream order is not delayed by its channel") {
  const CUstream waiter = make_stream();
  const CUstream copies = make_stream();
  CUdeviceptr source = address_of(make_pinned(64));
  CUdeviceptr target = make_memory(64);
  std::size_t bytes = 64;
  std::size_t first = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  Flag<cuuint32_t> flag;
  flag.hold(waiter);
  CHECK(CU(cuMemcpyBatchAsync)(&target, &source, &bytes, 1, &attributes, &first, 1, copies) ==
        CUDA_SUCCESS);
  CHECK(CU(cuStreamQuery)(copies) == CUDA_ERROR_NOT_READY);
  flag.set(1);
  OK(CU(cuStreamSynchronize)(copies));
}

TEST_CASE_FIXTURE(OneChannel, "the order within a channel does not prevent a race") {
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  const CUdeviceptr memory = make_memory(1);
  Flag<cuuint32_t> flag;
  flag.hold(first);
  fill(first, memory, 1);
  fill(second, memory, 2);
  flag.set(1);
  OK(CU(cuCtxSynchronize)());
  CHECK(found_race(sim));
}

TEST_CASE("work stays behind a channel's other streams when one leaves the channel") {
  SimFixture fixture(config("connections=1,stall_ms=20"));
  const CUstream waiter = make_stream();
  const CUstream leaving = make_stream();
  const CUstream behind = make_stream();
  const CUdeviceptr memory = make_memory(1);
  Flag<cuuint32_t> closed;
  Flag<cuuint32_t> open;
  open.set(1);
  closed.hold(waiter);
  open.hold(leaving);
  fill(behind, memory);
  CHECK(CU(cuStreamSynchronize)(leaving) == CUDA_SUCCESS);
  CHECK(found_shared_channel(fixture.sim));
  CHECK_FALSE(fixture.sim.run_next(behind));
  closed.set(1);
  CHECK(fixture.sim.run_next(waiter));
  CHECK(fixture.sim.run_next(behind));
}

TEST_CASE("a polling loop that never ends is reported") {
  for (const char* progress : {"eager", "random", "timed"}) {
    CAPTURE(std::string(progress));
    SimFixture fixture(fmt::format("memory=64MiB,connections=1,stall_ms=20,progress={}", progress));
    const CUstream waiter = make_stream();
    const CUstream other = make_stream();
    const CUevent event = make_event();
    Flag<cuuint32_t> flag;
    flag.hold(waiter);
    fill(other, make_memory(1));
    OK(CU(cuEventRecord)(event, other));
    CUresult state = CU(cuEventQuery)(event);
    CHECK(state == CUDA_ERROR_NOT_READY);
    while (state == CUDA_ERROR_NOT_READY) state = CU(cuEventQuery)(event);
    CHECK(state == CUDA_SUCCESS);
    CHECK(found_shared_channel(fixture.sim));
    flag.set(1);
    CHECK(CU(cuStreamSynchronize)(waiter) == CUDA_SUCCESS);
  }
}

TEST_CASE("work that its channel delays is not reported while a thread makes progress") {
  for (const char* progress : {"eager", "manual", "random", "timed"}) {
    CAPTURE(std::string(progress));
    SimFixture fixture(fmt::format("memory=64MiB,connections=1,progress={}", progress));
    const CUstream waiter = make_stream();
    const CUstream other = make_stream();
    Flag<cuuint32_t> flag;
    flag.hold(waiter);
    fill(other, make_memory(1));
    std::thread helper([&] {
      while (fixture.sim.calls("cuStreamSynchronize") == 0) std::this_thread::yield();
      flag.set(1);
    });
    CHECK(CU(cuStreamSynchronize)(other) == CUDA_SUCCESS);
    CHECK(fixture.sim.pending_operations(waiter) == 0);
    helper.join();
  }
}

}  // namespace channel_test
