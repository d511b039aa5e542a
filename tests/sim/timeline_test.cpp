// SPDX-License-Identifier: Apache-2.0
// The timeline of executed work, from which diagrams are drawn.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "berth/bytes.hpp"

#include "sim/graph_fixture.hpp"
#include "sim/work/cost_model.hpp"

namespace timeline_test {

using namespace berth;
using namespace berth::test;
using sim::TimelineEntry;
using sim::WorkKind;

namespace {

constexpr std::size_t kBytes = 16_MiB;

struct TimelineFixture : SimFixture {
  TimelineFixture() : SimFixture("memory=1GiB,devices=2,progress=timed") { sim.record_timeline(); }

  /// The only entry of that kind since the last call; what came beside it in `others`.
  TimelineEntry only(WorkKind kind) {
    std::vector<TimelineEntry> found;
    others.clear();
    for (const TimelineEntry& entry : sim.take_timeline())
      (entry.kind == kind ? found : others).push_back(entry);
    REQUIRE(found.size() == 1);
    return found.front();
  }

  std::vector<TimelineEntry> others;
  CUstream one = make_stream();
  CUstream two = make_stream();
  unsigned char* pinned = make_pinned(2 * kBytes);
  CUdeviceptr memory = make_memory(2 * kBytes);
};

std::uint64_t duration(const TimelineEntry& entry) {
  return entry.end_ns - entry.begin_ns;
}

}  // namespace

TEST_CASE_FIXTURE(TimelineFixture, "the timeline has the stream, bytes and times of work") {
  const std::uint64_t before = sim.now_ns();
  OK(CU(cuMemcpyAsync)(memory, address_of(pinned), kBytes, one));
  OK(CU(cuStreamSynchronize)(one));
  const TimelineEntry copy = only(WorkKind::copy_to_device);
  CHECK(copy.name == "cuMemcpyAsync");
  CHECK(copy.device == 0);
  CHECK(copy.stream == one);
  CHECK(copy.bytes == kBytes);
  CHECK(copy.begin_ns >= before);
  CHECK(copy.end_ns <= sim.now_ns());
  CHECK(duration(copy) == sim::transfer_ns(sim::Engine::host_to_device, kBytes));
}

TEST_CASE_FIXTURE(TimelineFixture, "a wait of the host is recorded with its call") {
  OK(CU(cuMemcpyAsync)(memory, address_of(pinned), kBytes, one));
  OK(CU(cuStreamSynchronize)(one));
  OK(CU(cuStreamSynchronize)(one));  // nothing to wait for
  const TimelineEntry wait = only(WorkKind::host_wait);
  CHECK(wait.name == "cuStreamSynchronize");
  CHECK(wait.device == -1);
  CHECK(wait.stream == nullptr);
  REQUIRE(others.size() == 1);
  CHECK(wait.begin_ns > others[0].begin_ns);
  CHECK(wait.end_ns == others[0].end_ns);
}

TEST_CASE_FIXTURE(TimelineFixture, "overlapping work overlaps in the timeline") {
  CHECK(sim.launch(one, {.name = "first", .duration_ns = 1'000'000}));
  CHECK(sim.launch(two, {.name = "second", .duration_ns = 500'000}));
  CHECK(sim.launch(one, {.name = "third", .duration_ns = 10'000}));
  OK(CU(cuCtxSynchronize)());
  std::vector<TimelineEntry> kernels;
  for (const TimelineEntry& entry : sim.take_timeline())
    if (entry.kind == WorkKind::kernel) kernels.push_back(entry);
  REQUIRE(kernels.size() == 3);
  CHECK(kernels[0].name == "second");
  CHECK(kernels[1].name == "first");
  CHECK(kernels[2].name == "third");
  CHECK(kernels[0].begin_ns < kernels[1].end_ns);
  CHECK(kernels[1].begin_ns < kernels[0].end_ns);
  CHECK(kernels[2].begin_ns == kernels[1].end_ns);
  CHECK(duration(kernels[1]) == 1'000'000);
  CHECK(kernels[1].stream == one);
  CHECK(kernels[0].stream == two);
}

TEST_CASE_FIXTURE(TimelineFixture, "each kind of work has its kind of entry") {
  std::vector<unsigned char> pageable(64);
  const auto kind_of = [&](CUdeviceptr to, CUdeviceptr from) {
    OK(CU(cuMemcpyAsync)(to, from, 64, one));
    OK(CU(cuStreamSynchronize)(one));
    for (const TimelineEntry& entry : sim.take_timeline())
      if (entry.kind != WorkKind::host_wait) return entry.kind;
    return WorkKind::host_wait;
  };
  CHECK(kind_of(memory, address_of(pageable.data())) == WorkKind::copy_to_device);
  CHECK(kind_of(address_of(pinned), memory) == WorkKind::copy_to_host);
  CHECK(kind_of(memory, memory + kBytes) == WorkKind::copy_within_device);
  CHECK(kind_of(address_of(pinned), address_of(pinned + kBytes)) == WorkKind::copy_on_host);
  OK(CU(cuCtxPushCurrent)(retain(1)));
  const CUdeviceptr peer = make_memory(64);
  OK(CU(cuCtxPopCurrent)(nullptr));
  CHECK(kind_of(peer, memory) == WorkKind::copy_between_devices);
  OK(CU(cuMemsetD8Async)(memory, 1, 64, one));
  OK(CU(cuStreamSynchronize)(one));
  CHECK(only(WorkKind::fill).bytes == 64);
  OK(CU(cuLaunchHostFunc)(
      one, [](void*) {}, nullptr));
  OK(CU(cuStreamSynchronize)(one));
  CHECK(only(WorkKind::host_function).name == "cuLaunchHostFunc");
}

TEST_CASE_FIXTURE(TimelineFixture, "events and waits are not in the timeline") {
  const CUevent event = make_event();
  OK(CU(cuEventRecord)(event, one));
  OK(CU(cuStreamWaitEvent)(two, event, 0));
  OK(CU(cuCtxSynchronize)());
  CHECK(sim.take_timeline().empty());
}

TEST_CASE_FIXTURE(TimelineFixture, "work of a graph has the stream of the launch in the timeline") {
  const CUgraphExec exec = make_executable(capture([&](CUstream stream) {
    CHECK(sim.launch(stream, {.name = "step", .duration_ns = 7'000}));
    fill(memory, 1, stream);
  }));
  CHECK(sim.take_timeline().empty());
  OK(CU(cuGraphLaunch)(exec, two));
  OK(CU(cuStreamSynchronize)(two));
  const TimelineEntry kernel = only(WorkKind::kernel);
  CHECK(kernel.name == "step");
  CHECK(kernel.stream == two);
  CHECK(duration(kernel) == 7'000);
  REQUIRE(others.size() == 2);
  CHECK(others[0].name == "cuGraphLaunch");
  CHECK(others[0].kind == WorkKind::fill);
}

TEST_CASE_FIXTURE(TimelineFixture, "default streams have CUDA's names in the timeline") {
  CHECK(sim.launch(nullptr, 1'000));
  OK(CU(cuCtxSynchronize)());
  const TimelineEntry kernel = only(WorkKind::kernel);
  CHECK(kernel.stream == CU_STREAM_LEGACY);
  CHECK(kernel.name == "a kernel");
}

TEST_CASE("outside of virtual time an operation takes a microsecond in the timeline") {
  SimFixture fixture("memory=1GiB");
  fixture.sim.record_timeline();
  const CUstream stream = make_stream();
  CHECK(fixture.sim.launch(stream, 1'000'000));
  CHECK(fixture.sim.launch(stream, 1'000'000));
  const std::vector<TimelineEntry> entries = fixture.sim.take_timeline();
  REQUIRE(entries.size() == 2);
  CHECK(duration(entries[0]) == 1'000);
  CHECK(entries[1].begin_ns == entries[0].end_ns);
}

TEST_CASE("the timeline is recorded only on request") {
  SimFixture fixture("memory=1GiB,progress=timed");
  CHECK(fixture.sim.launch(make_stream(), 1'000));
  OK(CU(cuCtxSynchronize)());
  CHECK(fixture.sim.take_timeline().empty());
}

}  // namespace timeline_test
