// SPDX-License-Identifier: Apache-2.0
// A program that waits for its work without a driver call, in the modes in which calls run work.
// Every wait has an end, so that a test of a device that stands still fails and does not hang.
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "sim/flag.hpp"
#include "sim/sim_fixture.hpp"
#include "support/child_process.hpp"
#include "support/refused_threads.hpp"

namespace silence_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::chrono::seconds kHang{kHangSeconds};
/// The modes in which a wait for a value may stall a program that makes no call.
const std::vector<const char*> kAnyMode = {"eager", "random", "timed"};

/// Machines on which 20 ms without a call are a silence, in several orders.
std::vector<std::string> machines(const std::string& more = "", int seeds = 4,
                                  const std::vector<const char*>& modes = {"random", "timed"}) {
  std::vector<std::string> configs;
  for (const char* progress : modes)
    for (int seed = 1; seed <= seeds; ++seed)
      configs.push_back(
          fmt::format("memory=64MiB,silence_ms=20,progress={},seed={}{}", progress, seed, more));
  return configs;
}

/// Whether `holds` becomes true. Makes no driver call.
template <class Holds>
bool comes_true(const Holds& holds) {
  const auto end = std::chrono::steady_clock::now() + kHang;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

void pass_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

void write_word(CUstream stream, const Flag<cuuint32_t>& word) {
  OK(CU(cuStreamWriteValue32)(stream, word.address(), 1, 0));
}

/// Sets `done`, a std::promise<void>.
void keep_promise(void* done) {
  static_cast<std::promise<void>*>(done)->set_value();
}

/// What has been found once something has.
std::vector<std::string> await_findings(sim::Simulator& sim) {
  std::vector<std::string> findings;
  CHECK(comes_true([&] {
    findings = sim.take_findings();
    return !findings.empty();
  }));
  return findings;
}

}  // namespace

TEST_CASE("the host may wait for a promise that a host function keeps") {
  for (const std::string& machine : machines()) {
    CAPTURE(machine);
    const SimFixture fixture(machine);
    std::promise<void> done;
    OK(CU(cuLaunchHostFunc)(make_stream(), &keep_promise, &done));
    REQUIRE(done.get_future().wait_for(kHang) == std::future_status::ready);
    CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  }
}

TEST_CASE("the host may wait for a condition that a host function signals behind other work") {
  struct Signal {
    std::mutex lock;
    std::condition_variable changed;
    bool done = false;
  };
  for (const std::string& machine : machines()) {
    CAPTURE(machine);
    SimFixture fixture(machine);
    Signal signal;
    const CUstream stream = make_stream();
    const CUstream before = make_stream();
    const CUevent filled = make_event();
    const CUdeviceptr memory = make_memory(4096);
    OK(CU(cuMemsetD8Async)(memory, 7, 4096, before));
    OK(CU(cuEventRecord)(filled, before));
    OK(CU(cuStreamWaitEvent)(stream, filled, 0));
    const auto tell = [](void* data) {
      Signal& told = *static_cast<Signal*>(data);
      const std::lock_guard guard(told.lock);
      told.done = true;
      told.changed.notify_one();
    };
    OK(CU(cuLaunchHostFunc)(stream, tell, &signal));
    {
      std::unique_lock lock(signal.lock);
      REQUIRE(signal.changed.wait_for(lock, kHang, [&] { return signal.done; }));
    }
    CHECK(fixture.sim.peek(memory, 4096) == bytes_of(4096, 7));
    CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  }
}

TEST_CASE("the host may wait for a word of pinned memory that a stream writes") {
  for (const std::string& machine : machines()) {
    CAPTURE(machine);
    const SimFixture fixture(machine);
    const CUstream stream = make_stream();
    const Flag<cuuint32_t> word;
    unsigned char* const bytes = make_pinned(4096);
    OK(CU(cuMemsetD8Async)(address_of(bytes), 7, 4096, stream));
    write_word(stream, word);
    REQUIRE(comes_true([&] { return word.get() == 1; }));
    CHECK(bytes[4095] == 7);
  }
}

TEST_CASE("the host may open a gate, and wait for a word that is written behind it") {
  for (const std::string& machine : machines()) {
    CAPTURE(machine);
    const SimFixture fixture(machine);
    const CUstream stream = make_stream();
    Flag<cuuint32_t> gate;
    const Flag<cuuint32_t> word;
    std::promise<void> done;
    gate.hold(stream);
    OK(CU(cuLaunchHostFunc)(stream, &keep_promise, &done));
    write_word(stream, word);
    const std::future<void> passed = done.get_future();
    CHECK(passed.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
    gate.set(1);
    REQUIRE(passed.wait_for(kHang) == std::future_status::ready);
    CHECK(comes_true([&] { return word.get() == 1; }));
  }
}

TEST_CASE("the device goes on after each of several silences") {
  for (const std::string& machine : machines("", 1)) {
    CAPTURE(machine);
    const SimFixture fixture(machine);
    const CUstream stream = make_stream();
    for (int round = 0; round < 3; ++round) {
      const Flag<cuuint32_t> word;
      write_word(stream, word);
      REQUIRE(comes_true([&] { return word.get() == 1; }));
      pass_ms(60);  // nothing is pending, and the thread comes to rest
    }
  }
}

TEST_CASE("the calls and the seed determine the order if there is no silence") {
  const auto order = [](const char* progress, int seed, const char* silence) {
    SimFixture fixture(fmt::format("memory=64MiB,log=on,progress={},seed={},silence_ms={}",
                                   progress, seed, silence));
    const std::vector<CUstream> streams = make_streams(6);
    const CUdeviceptr memory = make_memory(6 << 10);
    for (int round = 0; round < 20; ++round) {
      for (std::size_t i = 0; i < streams.size(); ++i)
        OK(CU(cuMemsetD8Async)(memory + (i << 10), 1, 1 << 10, streams[i]));
      if (round == 10) pass_ms(5);
    }
    OK(CU(cuCtxSynchronize)());
    return fixture.sim.event_log();
  };
  for (const char* progress : {"random", "timed"})
    for (int seed = 1; seed <= 4; ++seed) {
      CAPTURE(std::string(progress));
      CAPTURE(seed);
      CHECK(order(progress, seed, "3600000") == order(progress, seed, "0"));
    }
}

TEST_CASE("a call that goes on for long is no silence") {
  for (const std::string& machine : machines()) {
    CAPTURE(machine);
    SimFixture fixture(machine);
    const CUstream computes = make_stream();
    const CUstream other = make_stream();
    std::size_t before = 0;
    std::size_t after = 1;
    fixture.sim.launch(computes, {.duration_ns = 1000, .compute = [&](sim::KernelMemory) {
                                    before = fixture.sim.pending_operations(other);
                                    pass_ms(100);
                                    after = fixture.sim.pending_operations(other);
                                  }});
    for (int i = 0; i < 100; ++i) REQUIRE(fixture.sim.launch(other, 1000));
    OK(CU(cuStreamSynchronize)(computes));
    CHECK(before != 0);
    CHECK(after == before);
  }
}

TEST_CASE("a program that is silent while a stream waits for a value is told once, and goes on") {
  for (const std::string& machine : machines(",stall_ms=60", 2, kAnyMode)) {
    CAPTURE(machine);
    SimFixture fixture(machine);
    const CUstream stream = make_stream();
    Flag<cuuint32_t> gate;
    const Flag<cuuint32_t> word;
    gate.hold(stream);
    write_word(stream, word);
    const std::vector<std::string> findings = await_findings(fixture.sim);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].starts_with("stall: cuStreamWaitValue32 "));
    CHECK(findings[0].find("now 0, to reach 1") != std::string::npos);
    CHECK(findings[0].find("has made no call for 60 ms") != std::string::npos);
    pass_ms(200);
    CHECK(fixture.sim.take_findings().empty());
    gate.set(1);
    CHECK(comes_true([&] { return word.get() == 1; }));
    CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  }
}

TEST_CASE("the host may write the value while a silence is examined") {
  SimFixture fixture("memory=64MiB,progress=random,silence_ms=10,stall_ms=1");
  for (int round = 0; round < 24; ++round) {
    Flag<cuuint32_t> gate;
    const Flag<cuuint32_t> word;
    gate.hold(nullptr);
    write_word(nullptr, word);
    pass_ms(15);  // the wait is a stall
    // Changes between any two looks at the gate, until one finds it open.
    const auto end = std::chrono::steady_clock::now() + kHang;
    while (word.get() != 1 && std::chrono::steady_clock::now() < end) gate.set(1 - gate.get());
    REQUIRE(word.get() == 1);
    CHECK(fixture.sim.take_findings().size() <= 1);  // none if the thread looked too late
  }
}

TEST_CASE("a function that runs on, or a kernel that polls, is no stall of a silent program") {
  for (const std::string& machine : machines(",stall_ms=30", 1, kAnyMode)) {
    CAPTURE(machine);
    SimFixture fixture(machine);
    const CUstream kernels = make_stream();
    const CUstream functions = make_stream();
    const CUstream gated = make_stream();
    Flag<cuuint32_t> bell;
    Flag<cuuint32_t> gate;
    REQUIRE(fixture.sim.launch(
        kernels,
        {.duration_ns = 1000, .polls = sim::KernelPoll{.address = bell.address(), .value = 1}}));
    pass_ms(150);
    CHECK(fixture.sim.take_findings().empty());
    const auto open_late = [](void* data) {
      pass_ms(150);
      static_cast<Flag<cuuint32_t>*>(data)->set(1);
    };
    OK(CU(cuLaunchHostFunc)(functions, open_late, &gate));
    gate.hold(gated);
    REQUIRE(comes_true([&] { return fixture.sim.pending_operations(gated) == 0; }));
    CHECK(fixture.sim.take_findings().empty());
    bell.set(1);
    CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  }
}

TEST_CASE("a channel that holds up the work for which a silent host waits is reported") {
  for (const std::string& machine : machines(",stall_ms=60,connections=1", 2, kAnyMode)) {
    CAPTURE(machine);
    SimFixture fixture(machine);
    const CUstream gated = make_stream();
    const CUstream opens = make_stream();
    const Flag<cuuint32_t> gate;
    const Flag<cuuint32_t> word;
    gate.hold(gated);
    write_word(gated, word);
    write_word(opens, gate);
    REQUIRE(comes_true([&] { return word.get() == 1; }));
    const std::vector<std::string> findings = fixture.sim.take_findings();
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].starts_with("shared channel: cuStreamWriteValue32 "));
  }
}

TEST_CASE("work that a silent host has not ordered still races") {
  for (const std::string& machine : machines()) {
    CAPTURE(machine);
    SimFixture fixture(machine);
    const CUstream stream = make_stream();
    const CUdeviceptr memory = make_memory(64);
    std::promise<void> done;
    OK(CU(cuMemsetD8Async)(memory, 1, 64, stream));
    OK(CU(cuLaunchHostFunc)(stream, &keep_promise, &done));
    REQUIRE(done.get_future().wait_for(kHang) == std::future_status::ready);
    OK(CU(cuMemsetD8Async)(memory, 2, 64, make_stream()));  // after what the function tells
    OK(CU(cuCtxSynchronize)());
    CHECK(fixture.sim.take_findings().empty());
    const Flag<cuuint32_t> word;
    OK(CU(cuMemsetD8Async)(memory, 3, 64, stream));
    write_word(stream, word);
    OK(CU(cuMemsetD8Async)(memory, 4, 64, make_stream()));
    REQUIRE(comes_true([&] { return word.get() == 1; }));
    OK(CU(cuCtxSynchronize)());
    CHECK(found_race(fixture.sim));
  }
}

TEST_CASE("a silence without a thread to notice it is noticed after the next work") {
  if (!kCanRefuseThreads) return;
  const SimFixture fixture(machines().front());
  const CUstream stream = make_stream();
  const Flag<cuuint32_t> word;
  const Flag<cuuint32_t> gate;
  {
    const RefusedThreads refused;
    write_word(stream, word);
  }
  OK(CU(cuStreamSynchronize)(stream));
  write_word(stream, gate);
  CHECK(comes_true([&] { return gate.get() == 1; }));
}

}  // namespace silence_test
