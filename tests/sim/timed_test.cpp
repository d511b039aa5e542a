// SPDX-License-Identifier: Apache-2.0
// Virtual time: which work overlaps, which waits, and that runs are reproducible.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "berth/bytes.hpp"

#include "sim/sim_fixture.hpp"
#include "sim/work/cost_model.hpp"

namespace timed_test {

using namespace berth;
using namespace berth::test;

namespace {

struct TimedFixture : SimFixture {
  TimedFixture() : SimFixture("memory=1GiB,devices=2,progress=timed") {}

  /// Virtual time from now until everything is done.
  std::uint64_t until_done() {
    const std::uint64_t before = sim.now_ns();
    OK(CU(cuCtxSynchronize)());
    return sim.now_ns() - before;
  }
  void copy_in(CUdeviceptr to, CUstream stream) const {
    OK(CU(cuMemcpyAsync)(to, reinterpret_cast<CUdeviceptr>(pinned), kBytes, stream));
  }
  void copy_out(CUdeviceptr from, CUstream stream) const {
    OK(CU(cuMemcpyAsync)(reinterpret_cast<CUdeviceptr>(other_pinned), from, kBytes, stream));
  }

  static constexpr std::size_t kBytes = 64_MiB;
  static constexpr std::uint64_t kCallsNs = 50'000;  // more than the calls of a case take
  const std::uint64_t in_ns = sim::transfer_ns(sim::Engine::host_to_device, kBytes);
  const std::uint64_t out_ns = sim::transfer_ns(sim::Engine::device_to_host, kBytes);
  unsigned char* pinned = make_pinned(kBytes);
  unsigned char* other_pinned = make_pinned(kBytes);
  CUdeviceptr first = make_memory(kBytes);
  CUdeviceptr second = make_memory(kBytes);
  CUstream one = make_stream();
  CUstream two = make_stream();
};

}  // namespace

TEST_CASE_FIXTURE(TimedFixture, "work takes virtual time while the host continues") {
  const std::uint64_t before = sim.now_ns();
  copy_in(first, one);
  CHECK(sim.now_ns() - before < kCallsNs);
  CHECK(CU(cuStreamQuery)(one) == CUDA_ERROR_NOT_READY);
  const std::uint64_t took = until_done();
  CHECK(took + kCallsNs > in_ns);
  CHECK(took < in_ns + kCallsNs);
}

TEST_CASE_FIXTURE(TimedFixture,
                  "work is done after the host spends enough virtual time elsewhere") {
  copy_in(first, one);
  sim.spend(2 * in_ns);
  CHECK(CU(cuStreamQuery)(one) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(TimedFixture,
                  "copies in opposite directions overlap, and in one direction they queue") {
  copy_in(first, one);
  copy_out(second, two);
  CHECK(until_done() < std::max(in_ns, out_ns) + kCallsNs);
  copy_in(first, one);
  copy_in(second, two);
  CHECK(until_done() + kCallsNs > 2 * in_ns);
}

TEST_CASE_FIXTURE(TimedFixture,
                  "kernels overlap with copies and one another, and queue within a stream") {
  CHECK(sim.launch(one, in_ns));
  CHECK(sim.launch(two, in_ns));
  copy_in(first, make_stream());
  CHECK(until_done() < in_ns + kCallsNs);
  CHECK(sim.launch(one, in_ns));
  CHECK(sim.launch(one, in_ns));
  CHECK(until_done() + kCallsNs > 2 * in_ns);
}

TEST_CASE_FIXTURE(TimedFixture, "work is executed once after a change of its stream's priority") {
  copy_in(first, one);
  copy_in(second, two);
  CUstreamAttrValue value{};
  value.priority = -5;
  OK(CU(cuStreamSetAttribute)(two, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  CHECK(until_done() + kCallsNs > 2 * in_ns);
  copy_in(first, one);
  copy_in(second, two);
  OK(CU(cuStreamCopyAttributes)(two, one));
  CHECK(until_done() + kCallsNs > 2 * in_ns);
  OK(CU(cuStreamDestroy)(two));
  copy_in(first, one);
  CHECK(until_done() < in_ns + kCallsNs);
}

TEST_CASE_FIXTURE(TimedFixture, "a wait for an event waits in virtual time") {
  const CUevent event = make_event();
  CHECK(sim.launch(one, in_ns));
  OK(CU(cuEventRecord)(event, one));
  OK(CU(cuStreamWaitEvent)(two, event, 0));
  CHECK(sim.launch(two, in_ns));
  CHECK(until_done() + kCallsNs > 2 * in_ns);
}

TEST_CASE_FIXTURE(TimedFixture, "events measure virtual time") {
  const CUevent start = make_event(CU_EVENT_DEFAULT);
  const CUevent end = make_event(CU_EVENT_DEFAULT);
  OK(CU(cuEventRecord)(start, one));
  CHECK(sim.launch(one, 5'000'000));
  OK(CU(cuEventRecord)(end, one));
  OK(CU(cuEventSynchronize)(end));
  float milliseconds = 0;
  OK(CU(cuEventElapsedTime)(&milliseconds, start, end));
  CHECK(milliseconds >= 5.0F);
  CHECK(milliseconds < 5.1F);
}

TEST_CASE_FIXTURE(TimedFixture, "the stream with the higher priority gets a free engine first") {
  CUstream urgent = nullptr;
  OK(CU(cuStreamCreateWithPriority)(&urgent, CU_STREAM_NON_BLOCKING, -5));
  const CUevent event = make_event();
  copy_in(first, one);
  copy_in(first, one);
  copy_in(second, urgent);
  OK(CU(cuEventRecord)(event, urgent));
  const std::uint64_t before = sim.now_ns();
  OK(CU(cuEventSynchronize)(event));
  const std::uint64_t took = sim.now_ns() - before;
  CHECK(took < 2 * in_ns + kCallsNs);
  CHECK(CU(cuStreamQuery)(one) == CUDA_ERROR_NOT_READY);
}

TEST_CASE_FIXTURE(TimedFixture, "a pageable copy to the host blocks the caller for its duration") {
  std::vector<unsigned char> pageable(kBytes);
  const std::uint64_t before = sim.now_ns();
  OK(CU(cuMemcpyAsync)(reinterpret_cast<CUdeviceptr>(pageable.data()), first, kBytes, one));
  CHECK(sim.now_ns() - before >= sim::pageable_transfer_ns(kBytes));
}

TEST_CASE_FIXTURE(TimedFixture, "devices work in parallel") {
  CHECK(sim.launch(one, in_ns));
  const CUcontext other = retain(1);
  OK(CU(cuCtxPushCurrent)(other));
  const CUstream there = make_stream();
  CHECK(sim.launch(there, in_ns));
  const std::uint64_t before = sim.now_ns();
  OK(CU(cuStreamSynchronize)(there));
  CHECK(CU(cuStreamQuery)(one) == CUDA_SUCCESS);
  CHECK(sim.now_ns() - before < in_ns + kCallsNs);
}

TEST_CASE("one seed gives one run, to the nanosecond, and with jitter another seed another run") {
  const auto run = [](const std::string& config) {
    SimFixture fixture("memory=1GiB,progress=timed," + config);
    CUstream streams[3];
    for (CUstream& stream : streams) stream = make_stream();
    for (std::uint64_t i = 0; i < 60; ++i)
      CHECK(fixture.sim.launch(streams[i % 3], 1'000 * (i % 7 + 1)));
    OK(CU(cuCtxSynchronize)());
    return std::pair(fixture.sim.now_ns(), fixture.sim.order_hash());
  };
  for (const std::string seed : {"1", "2", "3"}) {
    CHECK(run("jitter=20,seed=" + seed) == run("jitter=20,seed=" + seed));
    CHECK(run("seed=" + seed) == run("seed=1"));
  }
  CHECK(run("jitter=20,seed=1") != run("jitter=20,seed=2"));
}

TEST_CASE("a thousand seeds write the same log twice, byte for byte") {
  const auto run = [](const std::string& progress, unsigned seed) {
    SimFixture fixture("memory=64MiB,jitter=10,log=on,progress=" + progress +
                       ",seed=" + std::to_string(seed));
    CUstream streams[3];
    for (CUstream& stream : streams) stream = make_stream(CU_STREAM_DEFAULT);
    const CUevent event = make_event();
    const CUdeviceptr memory = make_memory(64);
    for (unsigned i = 0; i < 12; ++i) {
      CUstream stream = streams[(seed + i) % 3];
      if (i % 4 == 3) OK(CU(cuStreamWaitEvent)(stream, event, 0));
      OK(CU(cuMemsetD8Async)(memory + i, 1, 1, stream));
      if (i % 4 == 1) OK(CU(cuEventRecord)(event, stream));
    }
    OK(CU(cuCtxSynchronize)());
    return fixture.sim.event_log();
  };
  for (unsigned seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    for (const std::string progress : {"random", "timed"})
      CHECK(run(progress, seed) == run(progress, seed));
  }
}

TEST_CASE("an instance of MIG has engines of its own") {
  const SimFixture fixture("memory=1GiB,devices=2,mig=0:2,progress=timed");
  constexpr std::size_t kBytes = 16_MiB;
  const std::uint64_t copy_ns = sim::transfer_ns(sim::Engine::host_to_device, kBytes);
  const CUdeviceptr pinned = address_of(make_pinned(kBytes));
  const std::uint64_t before = fixture.sim.now_ns();
  for (int copy = 0; copy < 2; ++copy)
    OK(CU(cuMemcpyAsync)(make_memory(kBytes), pinned, kBytes, make_stream()));
  OK(CU(cuCtxSynchronize)());
  CHECK(fixture.sim.now_ns() - before >= 2 * copy_ns);
}

}  // namespace timed_test
