// SPDX-License-Identifier: Apache-2.0
// The random mode: any legal order, the same for the same seed, and never a standstill.
#include <set>
#include <string>

#include "sim/sim_fixture.hpp"

namespace progress_test {

using namespace berth;
using namespace berth::test;

namespace {

std::string config(unsigned seed) {
  return "memory=64MiB,progress=random,seed=" + std::to_string(seed);
}

/// Independent work on several streams, without a wait until the end. What ran before the wait, and
/// the order of all.
struct Outcome {
  std::uint64_t order;
  std::uint64_t early;
  bool operator==(const Outcome&) const = default;
};

Outcome run(unsigned seed) {
  const SimFixture fixture(config(seed));
  const CUdeviceptr memory = make_memory(80);
  CUstream streams[4];
  for (CUstream& stream : streams) stream = make_stream();
  for (unsigned i = 0; i < 80; ++i) OK(CU(cuMemsetD8Async)(memory + i, 1, 1, streams[i % 4]));
  const std::uint64_t early = fixture.sim.operations_run();
  OK(CU(cuCtxSynchronize)());
  CHECK(fixture.sim.operations_run() == 80);
  return {fixture.sim.order_hash(), early};
}

}  // namespace

TEST_CASE("the same seed gives the same order, and another seed another order") {
  std::set<std::uint64_t> orders;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Outcome outcome = run(seed);
    CHECK(run(seed) == outcome);
    orders.insert(outcome.order);
  }
  CHECK(orders.size() == 20);
}

TEST_CASE("in random mode work runs neither always at once nor only when waited for") {
  std::uint64_t early = 0;
  for (unsigned seed = 0; seed < 20; ++seed) early += run(seed).early;
  CHECK(early > 0);
  CHECK(early < 20 * 80);
}

TEST_CASE("a polling loop terminates") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const SimFixture fixture(config(seed));
    const CUdeviceptr memory = make_memory(64);
    const CUstream stream = make_stream();
    const CUevent event = make_event();
    for (int i = 0; i < 20; ++i) OK(CU(cuMemsetD8Async)(memory, 1, 64, stream));
    OK(CU(cuEventRecord)(event, stream));
    while (CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY) continue;
    CHECK(CU(cuEventQuery)(event) == CUDA_SUCCESS);
  }
}

TEST_CASE("random order respects streams, events and the legacy stream") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const SimFixture fixture(config(seed));
    const CUdeviceptr memory = make_memory(64);
    const CUstream first = make_stream();
    const CUstream second = make_stream();
    const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
    const CUevent event = make_event();
    const auto fill = [&](unsigned char value, CUstream stream) {
      OK(CU(cuMemsetD8Async)(memory, value, 64, stream));
    };
    fill(1, first);
    fill(2, first);
    OK(CU(cuEventRecord)(event, first));
    OK(CU(cuStreamWaitEvent)(second, event, 0));
    fill(3, second);
    OK(CU(cuEventRecord)(event, second));
    OK(CU(cuStreamWaitEvent)(blocking, event, 0));
    fill(4, blocking);
    fill(5, nullptr);
    fill(6, blocking);
    OK(CU(cuStreamSynchronize)(blocking));
    CHECK(fixture.sim.peek(memory, 64) == bytes_of(64, 6));
  }
}

TEST_CASE("a missing wait changes the result in some order") {
  bool right = false;
  bool wrong = false;
  for (unsigned seed = 0; seed < 50; ++seed) {
    SimFixture fixture(config(seed));
    const CUdeviceptr memory = make_memory(1);
    OK(CU(cuMemsetD8Async)(memory, 1, 1, make_stream()));
    OK(CU(cuMemsetD8Async)(memory, 2, 1, make_stream()));  // no event between the two
    OK(CU(cuCtxSynchronize)());
    (fixture.sim.peek(memory, 1) == bytes_of(1, 2) ? right : wrong) = true;
    CHECK(found_race(fixture.sim));
  }
  CHECK(right);
  CHECK(wrong);
}

}  // namespace progress_test
