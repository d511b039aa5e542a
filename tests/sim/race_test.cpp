// SPDX-License-Identifier: Apache-2.0
// Which uses race, and what orders two uses.
#include <string>
#include <utility>
#include <vector>

#include "berth/bytes.hpp"

#include "sim/sim_fixture.hpp"

namespace race_test {

using namespace berth;
using namespace berth::test;

namespace {

/// Two streams and 64 bytes, in which `first` has written.
struct RaceFixture : SimFixture {
  RaceFixture() : SimFixture("memory=1GiB,devices=2,progress=manual") {}

  void write(CUstream stream, std::size_t offset = 0, std::size_t bytes = 64) const {
    OK(CU(cuMemsetD8Async)(memory + offset, 1, bytes, stream));
  }
  void read(CUstream stream, std::size_t offset = 0, std::size_t bytes = 64) const {
    OK(CU(cuMemcpyAsync)(make_memory(bytes), memory + offset, bytes, stream));
  }
  /// Whether what has been submitted races, in any order of running.
  bool races() {
    sim.run_all();
    return found_race(sim);
  }

  CUdeviceptr memory = make_memory(64);
  CUstream first = make_stream();
  CUstream second = make_stream();
  CUevent event = make_event();
};

}  // namespace

TEST_CASE_FIXTURE(RaceFixture, "two writes, or a read and a write, without an order are a race") {
  write(first);
  write(second);
  CHECK(races());
  OK(CU(cuCtxSynchronize)());
  write(first);
  read(second);
  CHECK(races());
  OK(CU(cuCtxSynchronize)());
  read(first);
  write(second);
  CHECK(races());
}

TEST_CASE_FIXTURE(RaceFixture, "two reads, or uses of different bytes, do not race") {
  write(first, 0, 32);
  write(second, 32, 32);
  CHECK_FALSE(races());
  OK(CU(cuCtxSynchronize)());
  read(first);
  read(second);
  CHECK_FALSE(races());
}

TEST_CASE_FIXTURE(RaceFixture, "an overlap of one byte is a race") {
  write(first, 0, 33);
  write(second, 32, 32);
  CHECK(races());
}

TEST_CASE_FIXTURE(RaceFixture, "an event orders work before its record with work after a wait") {
  write(first);
  OK(CU(cuEventRecord)(event, first));
  OK(CU(cuStreamWaitEvent)(second, event, 0));
  write(second);
  CHECK_FALSE(races());
}

TEST_CASE_FIXTURE(RaceFixture, "an event orders work that is done before the wait, too") {
  write(first);
  OK(CU(cuEventRecord)(event, first));
  sim.run_all();
  OK(CU(cuStreamWaitEvent)(second, event, 0));
  write(second);
  CHECK_FALSE(races());
}

TEST_CASE_FIXTURE(RaceFixture, "an event does not order work after its record") {
  OK(CU(cuEventRecord)(event, first));
  write(first);
  OK(CU(cuStreamWaitEvent)(second, event, 0));
  write(second);
  CHECK(races());
}

TEST_CASE_FIXTURE(RaceFixture, "a wait applies to the latest record before the wait") {
  OK(CU(cuEventRecord)(event, first));
  OK(CU(cuStreamWaitEvent)(second, event, 0));
  write(first);
  OK(CU(cuEventRecord)(event, first));
  write(second);
  CHECK(races());
}

TEST_CASE_FIXTURE(RaceFixture, "order is transitive over streams") {
  const CUstream third = make_stream();
  const CUevent later = make_event();
  write(first);
  OK(CU(cuEventRecord)(event, first));
  OK(CU(cuStreamWaitEvent)(second, event, 0));
  OK(CU(cuEventRecord)(later, second));
  OK(CU(cuStreamWaitEvent)(third, later, 0));
  write(third);
  CHECK_FALSE(races());
}

TEST_CASE_FIXTURE(RaceFixture, "each kind of host wait orders work") {
  const auto waits = {+[](const RaceFixture& f) { return CU(cuStreamSynchronize)(f.first); },
                      +[](const RaceFixture& f) { return CU(cuEventSynchronize)(f.event); },
                      +[](const RaceFixture&) { return CU(cuCtxSynchronize)(); }};
  for (const auto& wait : waits) {
    write(first);
    OK(CU(cuEventRecord)(event, first));
    OK(wait(*this));
    write(second);
    CHECK_FALSE(races());
    OK(CU(cuCtxSynchronize)());
  }
}

TEST_CASE_FIXTURE(RaceFixture, "a successful query by the host orders work") {
  write(first);
  OK(CU(cuEventRecord)(event, first));
  CHECK(CU(cuEventQuery)(event) == CUDA_ERROR_NOT_READY);
  sim.run_all();
  SUBCASE("of the event") {
    CHECK(CU(cuEventQuery)(event) == CUDA_SUCCESS);
  }
  SUBCASE("of the stream") {
    CHECK(CU(cuStreamQuery)(first) == CUDA_SUCCESS);
  }
  write(second);
  CHECK_FALSE(races());
}

TEST_CASE_FIXTURE(RaceFixture, "an unsuccessful query by the host orders nothing") {
  write(first);
  CHECK(CU(cuStreamQuery)(first) == CUDA_ERROR_NOT_READY);
  sim.run_all();
  write(second);
  CHECK(races());
}

TEST_CASE_FIXTURE(RaceFixture, "waiting for one stream does not order another") {
  write(first);
  OK(CU(cuStreamSynchronize)(second));
  write(second);
  CHECK(races());
}

TEST_CASE_FIXTURE(RaceFixture,
                  "the legacy stream orders blocking streams, also without pending work") {
  const CUstream blocking = make_stream(CU_STREAM_DEFAULT);
  const CUstream other = make_stream(CU_STREAM_DEFAULT);
  write(blocking, 0, 8);
  sim.run_all();
  write(nullptr, 0, 16);
  sim.run_all();
  write(other);
  CHECK_FALSE(races());
  write(first);
  CHECK(races());
}

TEST_CASE_FIXTURE(RaceFixture,
                  "a running host function orders work, because it may notify the host") {
  static bool told;
  told = false;
  write(first);
  OK(CU(cuLaunchHostFunc)(
      first, [](void*) { told = true; }, nullptr));
  sim.run_all();
  CHECK(told);
  write(second);
  CHECK_FALSE(races());
}

TEST_CASE_FIXTURE(RaceFixture, "pinned memory is checked at each of its addresses") {
  unsigned char* const pinned = make_pinned(64);
  OK(CU(cuMemcpyAsync)(reinterpret_cast<CUdeviceptr>(pinned), memory, 64, first));
  OK(CU(cuMemcpyAsync)(make_memory(32), reinterpret_cast<CUdeviceptr>(pinned + 32), 32, second));
  CHECK(races());
}

TEST_CASE_FIXTURE(RaceFixture, "memory that a stand-in uses is checked") {
  write(first);
  CHECK(sim.launch(second, 1000, {{memory + 60, 4, false}}));
  CHECK(races());
}

TEST_CASE_FIXTURE(RaceFixture, "work of a destroyed stream still races until the host has waited") {
  const CUstream gone = make_stream();
  write(gone);
  OK(CU(cuStreamDestroy)(gone));
  write(first);
  CHECK(races());
  OK(CU(cuCtxSynchronize)());
  write(second);
  CHECK_FALSE(races());
}

TEST_CASE_FIXTURE(RaceFixture, "streams that come and go keep the order of those before them") {
  for (int round = 0; round < 50; ++round) {
    const CUstream stream = make_stream();
    write(stream);
    OK(CU(cuStreamSynchronize)(stream));
    OK(CU(cuStreamDestroy)(stream));
  }
  CHECK_FALSE(races());
  const CUstream stream = make_stream();
  write(stream);
  OK(CU(cuStreamDestroy)(stream));
  write(make_stream());
  CHECK(races());
}

TEST_CASE_FIXTURE(RaceFixture, "a finding names both calls, streams and ranges") {
  write(first, 0, 48);
  write(second, 16, 32);
  sim.run_all();
  const std::vector<std::string> findings = sim.take_findings();
  REQUIRE(findings.size() == 1);
  const std::string& text = findings.front();
  CAPTURE(text);
  const auto mentions = [&](const std::string& part) { return text.find(part) != text.npos; };
  CHECK(mentions("cuMemsetD8Async (call "));
  CHECK(mentions(" 48 B at "));
  CHECK(mentions(" 32 B at "));
  for (const CUstream stream : {first, second}) {
    char name[32];
    std::snprintf(name, sizeof name, "stream 0x%llx ",
                  reinterpret_cast<unsigned long long>(stream));
    CHECK(mentions(name));
  }
}

TEST_CASE_FIXTURE(RaceFixture, "freeing memory during work of another context is a race") {
  CUcontext other = retain(1);
  OK(CU(cuCtxPushCurrent)(other));
  OK(CU(cuCtxEnablePeerAccess)(context, 0));
  const CUstream there = make_stream();
  write(there);
  OK(CU(cuCtxPopCurrent)(nullptr));
  sim.run_all();
  OK(CU(cuMemFree)(memory));
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(RaceFixture, "freeing memory before work on it has run is a race") {
  CUcontext other = retain(1);
  OK(CU(cuCtxPushCurrent)(other));
  const CUstream there = make_stream();
  SUBCASE("a read") {
    OK(CU(cuMemcpyAsync)(make_memory(8), memory + 56, 8, there));
  }
  SUBCASE("a write") {
    OK(CU(cuMemcpyAsync)(memory, make_memory(8), 8, there));
  }
  SUBCASE("a fill") {
    OK(CU(cuCtxEnablePeerAccess)(context, 0));
    OK(CU(cuMemsetD8Async)(memory + 63, 1, 1, there));
  }
  SUBCASE("a kernel") {
    REQUIRE(sim.launch(there, 1000, {{memory - 512, 1024, false}}));
  }
  OK(CU(cuCtxPopCurrent)(nullptr));
  OK(CU(cuMemFree)(memory));
  CHECK(found_race(sim));
}

TEST_CASE_FIXTURE(RaceFixture, "freeing memory next to that of pending work is no race") {
  const CUdeviceptr next = make_memory(64);
  CUcontext other = retain(1);
  OK(CU(cuCtxPushCurrent)(other));
  const CUstream there = make_stream();
  const std::vector<unsigned char> pageable(64);
  OK(CU(cuMemcpyAsync)(make_memory(64), address_of(pageable.data()), 64, there));
  REQUIRE(sim.launch(there, 1000, {{memory + 64, 64, true}, {memory - 64, 64, true}}));
  OK(CU(cuCtxPopCurrent)(nullptr));
  OK(CU(cuMemFree)(memory));
  OK(CU(cuMemFree)(next));
  CHECK_FALSE(found_race(sim));
}

TEST_CASE_FIXTURE(RaceFixture, "a kernel has the name of its source in findings") {
  for (const auto& [name, shown] :
       {std::pair{"_Z4addkPKfPfi", "race: addk(float const*, float*, int) ("},
        std::pair{"f", "race: f ("}}) {
    const CUdeviceptr written = make_memory(64);
    for (int i = 0; i < 2; ++i)
      REQUIRE(sim.launch(make_stream(), {.name = name, .uses = {{written, 64, true}}}));
    sim.run_all();
    const std::vector<std::string> found = sim.take_findings();
    REQUIRE(found.size() == 1);
    CHECK(found[0].starts_with(shown));
  }
}

TEST_CASE("disabled checks report nothing") {
  SimFixture fixture("memory=1GiB,checks=off");
  const CUdeviceptr memory = make_memory(64);
  OK(CU(cuMemsetD8Async)(memory, 1, 64, make_stream()));
  OK(CU(cuMemsetD8Async)(memory, 2, 64, make_stream()));
  OK(CU(cuCtxSynchronize)());
  CHECK(fixture.sim.take_findings().empty());
}

TEST_CASE("a race is found in every mode, in whatever order the work ran") {
  for (const std::string mode : {"eager", "manual", "random", "timed"}) {
    CAPTURE(mode);
    SimFixture fixture("memory=1GiB,progress=" + mode);
    const CUdeviceptr memory = make_memory(64);
    OK(CU(cuMemsetD8Async)(memory, 1, 64, make_stream()));
    OK(CU(cuMemsetD8Async)(memory, 2, 64, make_stream()));
    OK(CU(cuCtxSynchronize)());
    CHECK(found_race(fixture.sim));
  }
}

TEST_CASE("repeated findings are counted and not stored") {
  SimFixture fixture("memory=1GiB");
  const CUdeviceptr memory = make_memory(64);
  const CUstream streams[] = {make_stream(), make_stream()};
  for (int i = 0; i < 300; ++i) OK(CU(cuMemsetD8Async)(memory, 1, 64, streams[i % 2]));
  const std::vector<std::string> findings = fixture.sim.take_findings();
  REQUIRE(findings.size() == 101);
  CHECK(findings.back() == "and 199 more");
}

namespace {

/// Whether memory of device 0 that work has written to may be unmapped, and pinned memory that it
/// has read be written by device 1, without a word; before, that work's device is lost, or is not.
bool ends_silently(const std::string& options, bool is_primary_released) {
  SimFixture fixture("memory=64MiB,devices=3" + options);
  constexpr std::size_t kBytes = std::size_t{2} << 20;
  const CUmemAllocationProp properties = properties_on(0);
  CUmemGenericAllocationHandle physical = 0;
  CUdeviceptr mapped = 0;
  OK(CU(cuMemCreate)(&physical, kBytes, &properties, 0));
  OK(CU(cuMemAddressReserve)(&mapped, kBytes, 0, 0, 0));
  OK(CU(cuMemMap)(mapped, kBytes, 0, physical, 0));
  const CUmemAccessDesc access = access_for(0);
  OK(CU(cuMemSetAccess)(mapped, kBytes, &access, 1));
  const CUcontext other = retain(1);
  OK(CU(cuCtxSetCurrent)(other));
  unsigned char* const pinned = make_pinned(64);
  OK(CU(cuCtxSetCurrent)(fixture.context));
  OK(CU(cuMemcpyAsync)(mapped, address_of(pinned), 64, make_stream()));
  static_cast<void>(CU(cuStreamQuery)(nullptr));  // where the plan has a fault
  if (is_primary_released) static_cast<void>(CU(cuDevicePrimaryCtxRelease)(0));
  OK(CU(cuCtxSetCurrent)(other));
  OK(CU(cuMemsetD8Async)(address_of(pinned), 1, 64, make_stream()));
  OK(CU(cuMemUnmap)(mapped, kBytes));
  return !found_race(fixture.sim);
}

}  // namespace

TEST_CASE("work of a lost device does not race") {
  CHECK_FALSE(ends_silently("", false));
  CHECK(ends_silently(",faults=cuStreamQuery@1=lost:0", false));
  CHECK(ends_silently(",faults=cuStreamQuery@1=lost:0", true));
  CHECK_FALSE(ends_silently(",faults=cuStreamQuery@1=lost:2", false));
}

}  // namespace race_test
