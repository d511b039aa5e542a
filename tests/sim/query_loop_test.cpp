// SPDX-License-Identifier: Apache-2.0
// Programs that query work again and again instead of waiting for it, in the modes in which work
// runs without a test. A loop ends once there is a finding, or when kHangSeconds are over.
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/flag.hpp"
#include "sim/sim_fixture.hpp"
#include "support/child_process.hpp"

namespace query_loop_test {

using namespace berth;
using namespace berth::test;

namespace {

std::string machine(const char* progress, const char* more = "") {
  return fmt::format("memory=64MiB,stall_ms=40,progress={}{}", progress, more);
}

/// Calls `query` until there are `count` findings, and returns the last.
std::string query_until_found(sim::Simulator& sim, const std::function<CUresult()>& query,
                              bool naps, std::size_t count = 1) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kHangSeconds);
  std::vector<std::string> findings;
  while (findings.size() < count && std::chrono::steady_clock::now() < end) {
    CHECK(query() == CUDA_ERROR_NOT_READY);
    for (std::string& finding : sim.take_findings()) findings.push_back(std::move(finding));
    if (naps) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(findings.size() == count);
  return findings.empty() ? "" : findings.back();
}

/// Queries for longer than stall_ms.
void query_on(const std::function<CUresult()>& query) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(120);
  while (std::chrono::steady_clock::now() < end) CHECK(query() == CUDA_ERROR_NOT_READY);
}

/// Blocks a stream until it is opened.
struct Closed {
  void hold(CUstream stream) {
    const auto body = [](void* data) {
      while (!static_cast<Closed*>(data)->open) std::this_thread::yield();
    };
    OK(CU(cuLaunchHostFunc)(stream, body, this));
  }

  std::atomic<bool> open = false;
};

}  // namespace

TEST_CASE("a loop that queries behind a wait for a value is reported once, and may go on") {
  for (const char* progress : {"eager", "random", "timed", "manual"}) {
    for (const bool naps : {false, true}) {
      for (const bool queries_event : {false, true}) {
        CAPTURE(std::string(progress));
        CAPTURE(naps);
        CAPTURE(queries_event);
        SimFixture fixture(machine(progress));
        const CUstream stream = make_stream();
        const CUevent event = make_event();
        Flag<cuuint32_t> flag;
        flag.hold(stream);
        OK(CU(cuEventRecord)(event, stream));
        const auto query = [&] {
          return queries_event ? CU(cuEventQuery)(event) : CU(cuStreamQuery)(stream);
        };
        const std::string found = query_until_found(fixture.sim, query, naps);
        CHECK(found.starts_with("stall: calls query work of stream "));
        CHECK(found.find("now 0, to reach 1") != std::string::npos);
        query_on(query);
        CHECK(fixture.sim.take_findings().empty());
        flag.set(1);
        CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
      }
    }
  }
}

TEST_CASE("two waits whose streams are queried in turn are reported once each") {
  SimFixture fixture(machine("eager"));
  const CUstream first = make_stream();
  const CUstream second = make_stream();
  Flag<cuuint32_t> flag;
  flag.hold(first);
  flag.hold(second);
  const auto query = [&] {
    return CU(cuStreamQuery)(first) == CUDA_SUCCESS ? CUDA_SUCCESS : CU(cuStreamQuery)(second);
  };
  CHECK(query_until_found(fixture.sim, query, false, 2) != "");
  query_on(query);
  CHECK(fixture.sim.take_findings().empty());
  flag.set(1);
  CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
}

TEST_CASE("a loop that queries behind a host function that does not return is reported once") {
  for (const char* progress : {"eager", "random", "timed"}) {
    CAPTURE(std::string(progress));
    SimFixture fixture(machine(progress));
    const CUstream stream = make_stream();
    Closed closed;
    closed.hold(stream);
    const auto query = [&] { return CU(cuStreamQuery)(stream); };
    const std::string found = query_until_found(fixture.sim, query, false);
    CHECK(found.starts_with("stall: calls query work of stream "));
    CHECK(found.find("whose host function has not returned") != std::string::npos);
    query_on(query);
    CHECK(fixture.sim.take_findings().empty());
    closed.open = true;
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_SUCCESS);
  }
}

TEST_CASE("a loop that queries while work runs, or could run, is no stall") {
  SUBCASE("a kernel that polls may idle") {
    SimFixture fixture(machine("eager"));
    const CUstream stream = make_stream();
    Flag<cuuint32_t> bell;
    REQUIRE(fixture.sim.launch(
        stream,
        {.duration_ns = 1000, .polls = sim::KernelPoll{.address = bell.address(), .value = 1}}));
    query_on([&] { return CU(cuStreamQuery)(stream); });
    CHECK(fixture.sim.take_findings().empty());
    bell.set(1);
    CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  }
  SUBCASE("a test has not run the work that writes the value") {
    SimFixture fixture(machine("manual"));
    const CUstream stream = make_stream();
    const CUstream writer = make_stream();
    Flag<cuuint32_t> flag;
    flag.hold(stream);
    OK(CU(cuStreamWriteValue32)(writer, flag.address(), 1, 0));
    query_on([&] { return CU(cuStreamQuery)(stream); });
    CHECK(fixture.sim.take_findings().empty());
    CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  }
  SUBCASE("in virtual time a kernel runs, behind which the value is written") {
    SimFixture fixture(machine("timed"));
    const CUstream stream = make_stream();
    const CUstream writer = make_stream();
    Flag<cuuint32_t> flag;
    flag.hold(stream);
    REQUIRE(fixture.sim.launch(writer, 3'600'000'000'000));
    OK(CU(cuStreamWriteValue32)(writer, flag.address(), 1, 0));
    query_on([&] { return CU(cuStreamQuery)(stream); });
    CHECK(fixture.sim.take_findings().empty());
    CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  }
  SUBCASE("other work of the program runs meanwhile") {
    SimFixture fixture(machine("eager"));
    const CUstream stream = make_stream();
    const CUstream other = make_stream();
    const CUdeviceptr memory = make_memory(1);
    Flag<cuuint32_t> flag;
    flag.hold(stream);
    query_on([&] {
      OK(CU(cuMemsetD8Async)(memory, 1, 1, other));
      return CU(cuStreamQuery)(stream);
    });
    CHECK(fixture.sim.take_findings().empty());
    flag.set(1);
    CHECK(CU(cuCtxSynchronize)() == CUDA_SUCCESS);
  }
}

}  // namespace query_loop_test
