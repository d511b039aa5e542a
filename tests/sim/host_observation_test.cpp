// SPDX-License-Identifier: Apache-2.0
// Host threads that read what work has written to pinned memory, without a driver call.
#include <atomic>
#include <string>

#include "driver/driver.hpp"
#include "sim/sim_fixture.hpp"

namespace host_observation_test {

using namespace berth;
using namespace berth::test;

namespace {

const char* const kModes[] = {"eager", "manual", "random", "timed"};

/// Two streams, 64 bytes, and a word in pinned memory by which the first stream tells its progress.
struct WordFixture : SimFixture {
  explicit WordFixture(const char* mode)
      : SimFixture(std::string("memory=64MiB,progress=") + mode) {
    store(0);
  }
  void store(unsigned value) const { std::atomic_ref<unsigned>(*word).store(value); }
  [[nodiscard]] unsigned load() const { return std::atomic_ref<unsigned>(*word).load(); }

  void fill(CUstream stream) const { OK(CU(cuMemsetD8Async)(memory, 1, 64, stream)); }
  void tell(unsigned value) const {
    OK(CU(cuStreamWriteValue32)(first, address_of(word), value, CU_STREAM_WRITE_VALUE_DEFAULT));
  }
  /// Whether a fill of the second stream races with what the first has done.
  bool second_races() {
    fill(second);
    sim.run_all();
    return found_race(sim);
  }

  unsigned* word = reinterpret_cast<unsigned*>(make_pinned(4));
  CUdeviceptr memory = make_memory(64);
  CUstream first = make_stream();
  CUstream second = make_stream();
};

/// As the library does.
Driver make_driver() {
  return Driver({.name = "sim",
                 .resolve = [](const char* symbol, int) { return sim::resolve(symbol); },
                 .problem = {},
                 .library = {}},
                {});
}

}  // namespace

TEST_CASE("reading a value orders the host after the work before its write") {
  for (const char* mode : kModes) {
    for (const bool says_so : {true, false}) {
      CAPTURE(mode);
      CAPTURE(says_so);
      WordFixture fixture(mode);
      fixture.fill(fixture.first);
      fixture.tell(1);
      fixture.sim.run_all();
      REQUIRE(fixture.load() == 1);
      if (says_so) fixture.sim.host_observes(fixture.word, 1);
      CHECK(fixture.second_races() == !says_so);
    }
  }
}

TEST_CASE("reading an earlier value does not order the host after later work") {
  for (const char* mode : kModes) {
    for (const unsigned value : {1U, 2U}) {
      CAPTURE(mode);
      CAPTURE(value);
      WordFixture fixture(mode);
      fixture.tell(1);
      fixture.fill(fixture.first);
      fixture.tell(2);
      fixture.sim.run_all();
      fixture.sim.host_observes(fixture.word, value);
      CHECK(fixture.second_races() == (value == 1));
    }
  }
}

TEST_CASE("an observation without a value orders the host after the last write") {
  WordFixture fixture("manual");
  fixture.fill(fixture.first);
  fixture.tell(1);
  fixture.sim.run_all();
  fixture.sim.host_observes(fixture.word);
  CHECK_FALSE(fixture.second_races());
}

TEST_CASE("a value that was not written by work orders nothing") {
  WordFixture fixture("manual");
  fixture.fill(fixture.first);
  fixture.tell(1);
  fixture.sim.run_all();
  fixture.store(7);
  fixture.sim.host_observes(fixture.word, 7);
  CHECK(fixture.second_races());
}

TEST_CASE("a reader of a forgotten value is ordered after the oldest remembered one") {
  WordFixture fixture("manual");
  fixture.fill(fixture.first);
  for (unsigned value = 1; value <= 1000; ++value) fixture.tell(value);
  fixture.sim.run_all();
  fixture.sim.host_observes(fixture.word, 1);
  CHECK_FALSE(fixture.second_races());
}

TEST_CASE("a copy or a fill of a word orders the host as a value write does") {
  for (const bool copies : {true, false}) {
    CAPTURE(copies);
    WordFixture fixture("manual");
    const CUdeviceptr one = make_memory(4);
    fixture.fill(fixture.first);
    OK(CU(cuMemsetD32Async)(copies ? one : address_of(fixture.word), 1, 1, fixture.first));
    if (copies) OK(CU(cuMemcpyAsync)(address_of(fixture.word), one, 4, fixture.first));
    fixture.sim.run_all();
    fixture.sim.host_observes(fixture.word, fixture.load());
    CHECK_FALSE(fixture.second_races());
  }
}

TEST_CASE("a thread that polls a word makes work progress and is ordered after it") {
  for (const char* mode : {"eager", "random", "timed"}) {
    CAPTURE(mode);
    WordFixture fixture(mode);
    const Driver driver = make_driver();
    fixture.fill(fixture.first);
    fixture.tell(1);
    const auto calls = driver.calls();
    while (fixture.load() == 0) driver.sim_host_observes(fixture.word, 0);
    driver.sim_host_observes(fixture.word, 1);
    CHECK(driver.calls() == calls);
    CHECK_FALSE(fixture.second_races());
  }
}

TEST_CASE("a look-alike exports the simulator's functions by cuGetProcAddress") {
  const sim::Simulator sim("");
  void* address = nullptr;
  CHECK(CU(cuGetProcAddress_v2)("berthSimHostObserves", &address, 2000, 0, nullptr) ==
        CUDA_SUCCESS);
  CHECK(address == sim::resolve("berthSimHostObserves"));
  CHECK(address != nullptr);
}

}  // namespace host_observation_test
