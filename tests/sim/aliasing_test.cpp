// SPDX-License-Identifier: Apache-2.0
// Two mappings of the same memory. Source: CUDA Programming Guide, "Virtual Aliasing Support".
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/flag.hpp"
#include "sim/graph_fixture.hpp"

namespace aliasing_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kGranule = 2 << 20;
constexpr std::size_t kBytes = 4096;
constexpr const char* kModes[] = {"eager", "manual", "random", "timed"};

/// A granule, mapped twice.
struct TwoMappings : SimFixture {
  explicit TwoMappings(const std::string& config = "progress=eager")
      : SimFixture("memory=64MiB," + config) {
    const CUmemAllocationProp properties = properties_on(0);
    OK(CU(cuMemCreate)(&physical, kGranule, &properties, 0));
    for (CUdeviceptr* mapping : {&one, &other}) {
      OK(CU(cuMemAddressReserve)(mapping, kGranule, 0, 0, 0));
      OK(CU(cuMemMap)(*mapping, kGranule, 0, physical, 0));
      const CUmemAccessDesc access = access_for(0);
      OK(CU(cuMemSetAccess)(*mapping, kGranule, &access, 1));
    }
  }
  ~TwoMappings() {
    CU(cuCtxSynchronize)();
    for (const CUdeviceptr mapping : {one, other}) {
      CU(cuMemUnmap)(mapping, kGranule);
      CU(cuMemAddressFree)(mapping, kGranule);
    }
    CU(cuMemRelease)(physical);
  }
  TwoMappings(const TwoMappings&) = delete;
  TwoMappings& operator=(const TwoMappings&) = delete;

  /// Takes the findings: one about aliasing, whose text contains all of `words`; or none.
  void expect_aliasing(const std::vector<std::string>& words) {
    const std::vector<std::string> findings = sim.take_findings();
    REQUIRE(findings.size() == 1);
    CAPTURE(findings[0]);
    CHECK(findings[0].starts_with("aliasing: "));
    for (const std::string& word : words)
      CHECK_MESSAGE(findings[0].find(word) != std::string::npos, word);
  }
  void expect_nothing() {
    for (const std::string& finding : sim.take_findings()) FAIL_CHECK(finding);
  }

  CUmemGenericAllocationHandle physical = 0;
  CUdeviceptr one = 0;
  CUdeviceptr other = 0;
};

template <class Body>
void in_each_mode(Body&& body) {
  for (const char* mode : kModes) {
    CAPTURE(std::string(mode));
    TwoMappings memory(std::string("progress=") + mode);
    body(memory);
  }
}

}  // namespace

TEST_CASE("two mappings in stream order are coherent") {
  in_each_mode([](TwoMappings& memory) {
    const CUstream first = make_stream();
    const CUstream second = make_stream();
    for (int round = 0; round < 3; ++round) {
      OK(CU(cuMemsetD8Async)(memory.one, 1, kBytes, first));
      order(first, second);
      CHECK(memory.sim.launch(second, {.uses = {{memory.other, kBytes, true}}}));
      CHECK(memory.sim.launch(second, {.uses = {{memory.one, kBytes, false}}}));
      order(second, first);
    }
    OK(CU(cuCtxSynchronize)());
    memory.expect_nothing();
  });
}

TEST_CASE("a kernel that uses one byte through two mappings is reported, whichever comes first") {
  for (const bool writes_first : {true, false}) {
    CAPTURE(writes_first);
    in_each_mode([&](TwoMappings& memory) {
      const CUstream stream = make_stream();
      CHECK(memory.sim.launch(stream, {.name = "shift",
                                       .uses = {{memory.one, kBytes, writes_first},
                                                {memory.other + 1000, 10, !writes_first}}}));
      OK(CU(cuStreamSynchronize)(stream));
      memory.expect_aliasing({"shift (call ", " reads ", " writes ", "within one operation"});
    });
  }
}

TEST_CASE("a kernel that only reads through two mappings, or uses other bytes, is not reported") {
  in_each_mode([](TwoMappings& memory) {
    const CUstream stream = make_stream();
    CHECK(memory.sim.launch(
        stream, {.uses = {{memory.one, kBytes, false}, {memory.other, kBytes, false}}}));
    CHECK(memory.sim.launch(
        stream, {.uses = {{memory.one, kBytes, true}, {memory.other + kBytes, kBytes, true}}}));
    OK(CU(cuStreamSynchronize)(stream));
    memory.expect_nothing();
  });
}

// A persistent kernel that a flag tells of new data, with the data written through `written`.
void run_persistent(TwoMappings& memory, CUdeviceptr written, CUdeviceptr flag) {
  const CUstream kernels = make_stream();
  const CUstream copies = make_stream();
  OK(CU(cuMemsetD8Async)(written, 0, kBytes, kernels));  // before the kernel: seen by all
  order(kernels, copies);
  CHECK(memory.sim.launch(kernels, {.name = "server",
                                    .duration_ns = 1000,
                                    .uses = {{memory.one, kBytes, false}},
                                    .polls = sim::KernelPoll{flag, 1}}));
  OK(CU(cuMemsetD8Async)(written, 7, kBytes, copies));
  OK(CU(cuStreamWriteValue32)(copies, flag, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
  OK(CU(cuStreamSynchronize)(kernels));
  OK(CU(cuStreamSynchronize)(copies));
}

TEST_CASE("a persistent kernel does not see a write through another mapping") {
  in_each_mode([](TwoMappings& memory) {
    const CUdeviceptr flag = make_memory(4);
    OK(CU(cuMemsetD8)(flag, 0, 4));
    OK(CU(cuCtxSynchronize)());
    run_persistent(memory, memory.other, flag);
    memory.expect_aliasing({"server (call ", " reads ", ", after cuMemsetD8Async (call ",
                            "the kernel was on the device before"});
  });
}

TEST_CASE("a persistent kernel sees a write through its own mapping") {
  in_each_mode([](TwoMappings& memory) {
    const CUdeviceptr flag = make_memory(4);
    OK(CU(cuMemsetD8)(flag, 0, 4));
    OK(CU(cuCtxSynchronize)());
    run_persistent(memory, memory.one, flag);
    memory.expect_nothing();
  });
}

TEST_CASE("a persistent kernel sees what the host writes before it sets the flag") {
  in_each_mode([](TwoMappings& memory) {
    Flag<cuuint32_t> flag;
    const CUstream stream = make_stream();
    OK(CU(cuMemsetD8Async)(memory.other, 0, kBytes, stream));
    CHECK(memory.sim.launch(stream, {.uses = {{memory.one, kBytes, false}},
                                     .polls = sim::KernelPoll{flag.address(), 1}}));
    flag.set(1);
    OK(CU(cuStreamSynchronize)(stream));
    memory.expect_nothing();
  });
}

TEST_CASE("a kernel polls aligned words that its device reaches") {
  TwoMappings memory;
  const CUstream stream = make_stream();
  CHECK_FALSE(memory.sim.launch(stream, {.polls = sim::KernelPoll{memory.one + 2, 1}}));
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(memory.sim.launch(stream, {.polls = sim::KernelPoll{memory.one + 2 * kGranule, 1}}));
  CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_CASE("a polling kernel blocks only its own stream") {
  TwoMappings memory("progress=manual,connections=1,stall_ms=50");
  Flag<cuuint32_t> flag;
  const CUstream kernels = make_stream();
  const CUstream others = make_stream();
  CHECK(memory.sim.launch(kernels, {.polls = sim::KernelPoll{flag.address(), 1}}));
  OK(CU(cuMemsetD8Async)(memory.one, 0, kBytes, others));
  OK(CU(cuStreamSynchronize)(others));
  CHECK(CU(cuStreamQuery)(kernels) == CUDA_ERROR_NOT_READY);
  flag.set(1);
  OK(CU(cuStreamSynchronize)(kernels));
  memory.expect_nothing();
}

TEST_CASE(
    "a dependent launch does not see what the kernel before it writes through another mapping") {
  for (const bool programmatic : {true, false}) {
    for (const bool aliased : {true, false}) {
      CAPTURE(programmatic);
      CAPTURE(aliased);
      in_each_mode([&](TwoMappings& memory) {
        const CUstream stream = make_stream();
        OK(CU(cuMemsetD8Async)(memory.other, 1, kBytes, stream));
        CHECK(memory.sim.launch(
            stream,
            {.name = "primary", .uses = {{aliased ? memory.other : memory.one, 16, true}}}));
        CHECK(memory.sim.launch(stream, {.name = "secondary",
                                         .uses = {{memory.one, kBytes, false}},
                                         .programmatic = programmatic}));
        OK(CU(cuStreamSynchronize)(stream));
        if (programmatic && aliased)
          memory.expect_aliasing({"secondary (call ", ", after primary (call "});
        else
          memory.expect_nothing();
      });
    }
  }
}

TEST_CASE("consecutive dependent launches may run as early as the first of them") {
  in_each_mode([](TwoMappings& memory) {
    const CUstream stream = make_stream();
    CHECK(memory.sim.launch(stream, {.name = "first", .uses = {{memory.other, kBytes, true}}}));
    CHECK(memory.sim.launch(stream, {.name = "second", .programmatic = true}));
    CHECK(memory.sim.launch(
        stream, {.name = "third", .uses = {{memory.one, kBytes, false}}, .programmatic = true}));
    OK(CU(cuStreamSynchronize)(stream));
    memory.expect_aliasing({"third (call ", ", after first (call "});
  });
}

TEST_CASE("an operation other than a kernel ends a sequence of dependent launches") {
  in_each_mode([](TwoMappings& memory) {
    const CUstream stream = make_stream();
    CHECK(memory.sim.launch(stream, {.name = "first", .uses = {{memory.other, kBytes, true}}}));
    OK(CU(cuMemsetD8Async)(memory.one + kBytes, 1, 1, stream));
    CHECK(memory.sim.launch(
        stream, {.name = "second", .uses = {{memory.one, kBytes, false}}, .programmatic = true}));
    OK(CU(cuStreamSynchronize)(stream));
    memory.expect_nothing();
  });
}

TEST_CASE("a captured dependent launch is checked at each launch of the graph") {
  in_each_mode([](TwoMappings& memory) {
    const CUgraphExec exec = make_executable(capture([&](CUstream stream) {
      CHECK(memory.sim.launch(stream, {.name = "primary", .uses = {{memory.other, 16, true}}}));
      CHECK(memory.sim.launch(
          stream, {.name = "secondary", .uses = {{memory.one, 16, false}}, .programmatic = true}));
    }));
    const CUstream stream = make_stream();
    for (int launch = 0; launch < 2; ++launch) {
      OK(CU(cuGraphLaunch)(exec, stream));
      OK(CU(cuStreamSynchronize)(stream));
      memory.expect_aliasing({"secondary (call "});
    }
    OK(CU(cuGraphExecDestroy)(exec));
  });
}

}  // namespace aliasing_test
