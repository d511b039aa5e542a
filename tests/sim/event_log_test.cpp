// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "berth/error.hpp"

#include "sim/sim_fixture.hpp"

namespace event_log_test {

using namespace berth;
using namespace berth::test;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A name for a file of this process alone.
std::string file_name() {
  return "/tmp/berth-event-log-" + std::to_string(getpid());
}

}  // namespace

TEST_CASE("the log records calls, work and virtual time") {
  SimFixture fixture("memory=64MiB,progress=timed,log=on");
  const CUstream stream = make_stream();
  CHECK(fixture.sim.launch(stream, 5000));
  OK(CU(cuStreamSynchronize)(stream));
  const std::string log = fixture.sim.event_log();
  CAPTURE(log);
  CHECK(has(log, " ns  call 1 cuDevicePrimaryCtxRetain\n"));
  CHECK(has(log, "call 3 cuStreamCreateWithPriority\n"));
  CHECK(has(log, "operation 1 (call 3) on stream 1 begins: kernel of 5000 ns\n"));
  CHECK(has(log, "operation 1 (call 3) on stream 1 is done: kernel of 5000 ns\n"));
}

TEST_CASE("the log records planned faults and findings") {
  SimFixture fixture("memory=64MiB,log=on,faults=cuMemAlloc@1=out_of_memory");
  CUdeviceptr memory = 0;
  CHECK(CU(cuMemAlloc)(&memory, 64) == CUDA_ERROR_OUT_OF_MEMORY);
  memory = make_memory(64);
  for (int i = 0; i < 2; ++i) OK(CU(cuMemsetD8Async)(memory, 1, 64, make_stream()));
  CHECK(found_race(fixture.sim));
  const std::string log = fixture.sim.event_log();
  CHECK(has(log, "a planned fault strikes\n"));
  CHECK(has(log, "found: race\n"));
}

TEST_CASE("no log is kept unless it is asked for") {
  const SimFixture fixture("memory=64MiB");
  CHECK(fixture.sim.event_log().empty());
}

TEST_CASE("a log is written line by line, and an unwritable file is refused") {
  const std::string name = file_name();
  {
    const SimFixture fixture("memory=64MiB,log=" + name);
    std::stringstream text;
    text << std::ifstream(name).rdbuf();
    CHECK(has(text.str(), "call 1 cuDevicePrimaryCtxRetain\n"));
    CHECK(fixture.sim.event_log().empty());
  }
  std::remove(name.c_str());
  CHECK_THROWS_WITH_AS(
      sim::Simulator("log=/no/such/folder/log"),
      "simulator: log=/no/such/folder/log cannot be written; accepted: off, on, or "
      "the name of a file that can be",
      InvalidArgument);
  CHECK_THROWS_AS(sim::Simulator("log="), InvalidArgument);
}

TEST_CASE("a folder or a pipe is refused as a log") {
  const std::string name = file_name();
  REQUIRE(mkfifo(name.c_str(), 0600) == 0);
  CHECK_THROWS_AS(sim::Simulator("log=" + name), InvalidArgument);
  std::remove(name.c_str());
  CHECK_THROWS_AS(sim::Simulator("log=/tmp"), InvalidArgument);
  CHECK_NOTHROW(sim::Simulator("log=/dev/null"));
}

}  // namespace event_log_test
