// SPDX-License-Identifier: Apache-2.0
// How waits of host threads order the work of themselves and other threads, and uses of pinned
// memory by host threads.
#include <atomic>
#include <string>
#include <thread>

#include "sim/sim_fixture.hpp"

namespace host_threads_test {

using namespace berth;
using namespace berth::test;

namespace {

const char* const kModes[] = {"eager", "manual", "random", "timed"};

struct ThreadsFixture : SimFixture {
  explicit ThreadsFixture(const std::string& threads, const char* mode = "manual")
      : SimFixture("memory=64MiB,threads=" + threads + ",progress=" + mode) {}

  void fill(CUstream stream) const { OK(CU(cuMemsetD8Async)(memory, 1, 64, stream)); }
  /// Another thread does it, and ends.
  template <class Do>
  void elsewhere(const Do& what) {
    std::thread thread([&] {
      OK(CU(cuCtxSetCurrent)(context));
      what();
    });
    thread.join();
  }
  bool races() {
    sim.run_all();
    return found_race(sim);
  }

  CUdeviceptr memory = make_memory(64);
  unsigned char* pinned = make_pinned(64);
  CUstream first = make_stream();
  CUstream second = make_stream();
};

/// Two threads that live on, and do one thing after the other, as locks would have them.
struct Turns {
  void take(int turn) {
    while (now.load() != turn) std::this_thread::yield();
  }
  void pass() { ++now; }
  std::atomic<int> now = 0;
};

/// One thread waits for a fill and tells another, which lives already, by means that the simulator
/// cannot see, or not. `announced`: it is told of them.
bool races_between_threads(const char* threads, const char* mode, bool announced) {
  ThreadsFixture fixture(threads, mode);
  Turns turns;
  std::thread other([&] {
    OK(CU(cuCtxSetCurrent)(fixture.context));  // its first call, after which it learns nothing
    turns.pass();
    turns.take(2);
    if (announced) fixture.sim.host_acquires(&turns);
    fixture.fill(fixture.second);
    turns.pass();
  });
  turns.take(1);
  fixture.fill(fixture.first);
  OK(CU(cuStreamSynchronize)(fixture.first));
  if (announced) fixture.sim.host_releases(&turns);
  turns.pass();
  turns.take(3);
  const bool found = fixture.races();
  other.join();
  return found;
}

}  // namespace

TEST_CASE("with threads=apart a thread is ordered after its own waits and announced ones") {
  for (const char* mode : kModes) {
    CAPTURE(mode);
    CHECK(races_between_threads("apart", mode, false));
    CHECK_FALSE(races_between_threads("apart", mode, true));
  }
}

TEST_CASE("with threads=together each thread is ordered after the waits of all threads") {
  for (const char* mode : kModes) {
    CAPTURE(mode);
    CHECK_FALSE(races_between_threads("together", mode, false));
  }
}

TEST_CASE("the start and the end of a thread order its work with that of its creator") {
  for (const char* mode : kModes) {
    CAPTURE(mode);
    ThreadsFixture fixture("apart", mode);
    fixture.fill(fixture.first);
    OK(CU(cuStreamSynchronize)(fixture.first));
    fixture.elsewhere([&] {
      fixture.fill(fixture.second);
      OK(CU(cuStreamSynchronize)(fixture.second));
    });
    fixture.fill(fixture.first);
    CHECK_FALSE(fixture.races());
  }
}

TEST_CASE("streams and events pass the order of one thread to other threads") {
  ThreadsFixture fixture("apart");
  const CUevent event = make_event();
  Turns turns;
  std::thread other([&] {
    OK(CU(cuCtxSetCurrent)(fixture.context));
    OK(CU(cuStreamQuery)(fixture.second));
    turns.pass();
    turns.take(2);
    OK(CU(cuStreamWaitEvent)(fixture.second, event, 0));
    fixture.fill(fixture.second);
    turns.pass();
  });
  turns.take(1);
  fixture.fill(fixture.first);
  OK(CU(cuStreamSynchronize)(fixture.first));
  OK(CU(cuEventRecord)(event, make_stream()));
  turns.pass();
  turns.take(3);
  CHECK_FALSE(fixture.races());
  other.join();
}

TEST_CASE("a thread that acquires an object is ordered after observations for the object") {
  for (const char* mode : kModes) {
    for (const bool acquires : {false, true}) {
      CAPTURE(mode);
      CAPTURE(acquires);
      ThreadsFixture fixture("together", mode);
      const int object = 0;
      fixture.fill(fixture.first);
      CHECK(fixture.sim.host_acts_for(&object) == nullptr);
      OK(CU(cuStreamSynchronize)(fixture.first));
      CHECK(fixture.sim.host_acts_for(nullptr) == &object);
      if (acquires) fixture.sim.host_acquires(&object);
      fixture.fill(fixture.second);
      CHECK(fixture.races() == !acquires);
    }
  }
}

TEST_CASE("a stream that waits for a word is ordered after what the host released to the word") {
  for (const bool knows_all : {false, true}) {
    CAPTURE(knows_all);
    ThreadsFixture fixture("together");
    auto* const word = reinterpret_cast<unsigned*>(fixture.pinned);
    std::atomic_ref<unsigned>(*word).store(0);
    if (!knows_all) fixture.sim.host_releases(word);
    fixture.fill(fixture.first);
    OK(CU(cuStreamSynchronize)(fixture.first));
    if (knows_all) fixture.sim.host_releases(word);
    // The fill is not the thread's, which has seen the other one done.
    const int object = 0;
    fixture.sim.host_acts_for(&object);
    const CUstream third = make_stream();
    OK(CU(cuStreamWaitValue32)(third, address_of(word), 1, CU_STREAM_WAIT_VALUE_GEQ));
    fixture.fill(third);
    fixture.sim.host_acts_for(nullptr);
    std::atomic_ref<unsigned>(*word).store(1);
    CHECK(fixture.races() == !knows_all);
  }
}

TEST_CASE("overwriting a staging buffer before its copy is done is a race") {
  for (const char* mode : kModes) {
    for (const bool waits : {false, true}) {
      CAPTURE(mode);
      CAPTURE(waits);
      ThreadsFixture fixture("together", mode);
      fixture.sim.host_writes(fixture.pinned, 64);
      OK(CU(cuMemcpyAsync)(fixture.memory, address_of(fixture.pinned), 64, fixture.first));
      if (waits) OK(CU(cuStreamSynchronize)(fixture.first));
      fixture.sim.host_writes(fixture.pinned + 60, 4);
      CHECK(fixture.races() == !waits);
    }
  }
}

TEST_CASE("reading the target of a pending copy is a race, and two reads are none") {
  for (const char* mode : kModes) {
    CAPTURE(mode);
    ThreadsFixture fixture("together", mode);
    OK(CU(cuMemcpyAsync)(fixture.memory, address_of(fixture.pinned), 64, fixture.first));
    fixture.sim.host_reads(fixture.pinned, 64);
    CHECK_FALSE(fixture.races());
    OK(CU(cuStreamSynchronize)(fixture.first));
    OK(CU(cuMemcpyAsync)(address_of(fixture.pinned), fixture.memory, 64, fixture.first));
    fixture.sim.host_reads(fixture.pinned + 63, 1);
    CHECK(fixture.races());
    OK(CU(cuStreamSynchronize)(fixture.first));
    fixture.sim.host_reads(fixture.pinned, 64);
    CHECK_FALSE(fixture.races());
  }
}

TEST_CASE("the report of a race with the host names both uses") {
  ThreadsFixture fixture("together");
  OK(CU(cuMemcpyAsync)(fixture.memory, address_of(fixture.pinned), 64, fixture.first));
  fixture.sim.run_all();
  fixture.sim.host_writes(fixture.pinned, 64);
  const std::vector<std::string> findings = fixture.sim.take_findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].starts_with("race: the host writes 64 B at "));
  CHECK(findings[0].find("while cuMemcpyAsync (call ") != std::string::npos);
}

TEST_CASE("pageable memory is not checked for races") {
  ThreadsFixture fixture("together");
  std::vector<unsigned char> pageable(64);
  OK(CU(cuMemcpyAsync)(fixture.memory, address_of(pageable.data()), 64, fixture.first));
  fixture.sim.host_writes(pageable.data(), 64);
  CHECK_FALSE(fixture.races());
}

TEST_CASE("with threads=apart host threads race over pinned memory") {
  for (const bool announced : {false, true}) {
    CAPTURE(announced);
    ThreadsFixture fixture("apart");
    Turns turns;
    std::thread other([&] {
      fixture.sim.host_reads(fixture.pinned, 1);
      turns.pass();
      turns.take(2);
      if (announced) fixture.sim.host_acquires(&turns);
      fixture.sim.host_writes(fixture.pinned + 8, 8);
      turns.pass();
    });
    turns.take(1);
    fixture.sim.host_writes(fixture.pinned + 8, 8);
    if (announced) fixture.sim.host_releases(&turns);
    turns.pass();
    turns.take(3);
    CHECK(fixture.races() == !announced);
    other.join();
  }
}

TEST_CASE("reuse of memory before its earlier users are known to be done is a race") {
  for (const bool waits : {false, true}) {
    CAPTURE(waits);
    ThreadsFixture fixture("together");
    OK(CU(cuMemcpyAsync)(fixture.memory, address_of(fixture.pinned), 64, fixture.first));
    fixture.sim.run_all();
    const int object = 0;
    fixture.sim.host_acts_for(&object);
    if (waits) OK(CU(cuStreamSynchronize)(fixture.first));
    fixture.sim.host_recycles(fixture.pinned, 64);
    fixture.sim.host_acts_for(nullptr);
    CHECK(found_race(fixture.sim) == !waits);
    fixture.sim.host_writes(fixture.pinned, 64);  // by a thread that knows of nothing
    CHECK_FALSE(fixture.races());
  }
}

}  // namespace host_threads_test
