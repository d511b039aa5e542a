// SPDX-License-Identifier: Apache-2.0
// Launches of kernels by the program under test, with each value of kernels=.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "berth/error.hpp"

#include "sim/graph_fixture.hpp"

namespace launch_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kPtx =
    ".version 8.0\n.target sm_80\n.visible .entry fill(\n  .param .u64 to)\n{ ret; }\n";

struct LaunchFixture : SimFixture {
  explicit LaunchFixture(const std::string& settings) : SimFixture("memory=64MiB," + settings) {
    OK(CU(cuModuleLoadData)(&module, kPtx));
    OK(CU(cuModuleGetFunction)(&fill, module, "fill"));
  }

  CUresult launch(CUdeviceptr memory, std::uint32_t value, CUstream stream, unsigned threads = 32) {
    void* arguments[] = {&memory, &value};
    return CU(cuLaunchKernel)(fill, 2, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr);
  }

  CUmodule module = nullptr;
  CUfunction fill = nullptr;
};

/// Fills 16 bytes with its second argument.
sim::Kernel stand_in(const sim::KernelLaunch& launch) {
  const auto memory = launch.argument<CUdeviceptr>(0);
  const auto value = launch.argument<std::uint32_t>(1);
  return {.duration_ns = 100,
          .uses = {{memory, 16, true}},
          .compute = [value](sim::KernelMemory ranges) {
            for (std::byte& byte : ranges[0]) byte = std::byte(value);
          }};
}

/// For the time of a test.
struct StandIn {
  StandIn(std::string name_, sim::KernelStandIn function) : name(std::move(name_)) {
    sim::Simulator::stand_in_for(name, std::move(function));
  }
  ~StandIn() { sim::Simulator::stand_in_for(name, nullptr); }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;

  std::string name;
};

}  // namespace

TEST_CASE("a launch is refused by default, and nothing is queued") {
  LaunchFixture fixture("progress=manual");
  const CUstream stream = make_stream();
  CHECK(fixture.launch(make_memory(16), 7, stream) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(fixture.sim.pending_operations(stream) == 0);
}

TEST_CASE("a skipped launch takes its place in its stream and touches nothing") {
  LaunchFixture fixture("progress=manual,kernels=skip");
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(16);
  OK(CU(cuMemsetD8Async)(memory, 3, 16, stream));
  OK(fixture.launch(memory, 7, stream));
  CHECK(fixture.sim.pending_operations(stream) == 2);
  CHECK(CU(cuStreamQuery)(stream) == CUDA_ERROR_NOT_READY);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(fixture.sim.peek(memory, 16) == bytes_of(16, 3));
}

TEST_CASE("a host function stands in for a kernel: its results are right, its races are found") {
  for (const bool ordered : {true, false}) {
    CAPTURE(ordered);
    const StandIn registered("fill", &stand_in);
    LaunchFixture fixture("kernels=host");
    const CUdeviceptr memory = make_memory(16);
    const CUstream writer = make_stream();
    const CUstream reader = make_stream();
    OK(fixture.launch(memory, 7, writer));
    if (ordered) OK(CU(cuStreamSynchronize)(writer));
    std::vector<unsigned char> back(16);
    OK(CU(cuMemcpyDtoHAsync)(back.data(), memory, 16, reader));
    OK(CU(cuStreamSynchronize)(reader));
    CHECK(back == bytes_of(16, 7));
    const std::vector<std::string> findings = fixture.sim.take_findings();
    CHECK(findings.size() == (ordered ? 0 : 1));
    if (!ordered && !findings.empty())
      CHECK(findings[0].find("fill of cuLaunchKernel") != std::string::npos);
  }
}

TEST_CASE("a graph runs a stand-in at each launch with the arguments that it captured") {
  const StandIn registered("fill", &stand_in);
  LaunchFixture fixture("kernels=host");
  const CUdeviceptr memory = make_memory(16);
  const CUstream stream = make_stream();
  OK(CU(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(fixture.launch(memory, 9, stream));
  CUgraph graph = nullptr;
  OK(CU(cuStreamEndCapture)(stream, &graph));
  CUgraphExec exec = nullptr;
  OK(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  for (int launch = 0; launch < 2; ++launch) {
    OK(CU(cuMemsetD8Async)(memory, 0, 16, stream));
    OK(CU(cuGraphLaunch)(exec, stream));
    OK(CU(cuStreamSynchronize)(stream));
    CHECK(fixture.sim.peek(memory, 16) == bytes_of(16, 9));
  }
}

TEST_CASE("without a stand-in, and where it throws, a launch fails and nothing is queued") {
  LaunchFixture fixture("kernels=host,progress=manual");
  const CUstream stream = make_stream();
  const CUdeviceptr memory = make_memory(16);
  CHECK(fixture.launch(memory, 7, stream) == CUDA_ERROR_NOT_SUPPORTED);
  for (const bool throws_number : {false, true}) {
    const StandIn registered("fill", [=](const sim::KernelLaunch&) -> sim::Kernel {
      if (throws_number) throw 7;
      throw std::runtime_error("no such size");
    });
    CHECK(fixture.launch(memory, 7, stream) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(fixture.launch(memory, 7, stream) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(fixture.sim.pending_operations(stream) == 0);
  CHECK_THROWS_AS(sim::Simulator::stand_in_for("", &stand_in), InvalidArgument);
}

TEST_CASE("a stand-in that throws while it computes is a kernel that fails") {
  for (const bool throws_number : {false, true}) {
    CAPTURE(throws_number);
    LaunchFixture fixture("kernels=host,progress=manual");
    const CUstream stream = make_stream();
    const CUdeviceptr memory = make_memory(16);
    OK(CU(cuMemsetD8Async)(memory, 3, 16, stream));
    const StandIn registered("fill", [=](const sim::KernelLaunch& launch) {
      sim::Kernel kernel = stand_in(launch);
      kernel.compute = [=](sim::KernelMemory ranges) {
        ranges[0][0] = std::byte{9};
        if (throws_number) throw 7;
        throw std::runtime_error("no such number");
      };
      return kernel;
    });
    OK(fixture.launch(memory, 7, stream));
    CHECK(CU(cuStreamSynchronize)(stream) == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(CU(cuCtxSynchronize)() == CUDA_ERROR_LAUNCH_FAILED);
    CHECK(fixture.sim.peek(memory, 16) == bytes_of(16, 3));
    CHECK(fixture.sim.pending_operations(stream) == 0);
    OK(CU(cuDevicePrimaryCtxReset)(0));
  }
}

TEST_CASE("a mangled kernel is found by its name in the source") {
  struct Case {
    const char* mangled;
    const char* source;
  };
  for (const Case& named :
       {Case{"_Z3addPfi", "add"}, Case{"_ZN2ns5scaleIfEEvPT_", "ns::scale<float>"},
        Case{"_Z5applyPFvvE", "apply"}, Case{"_Z3addPfi", "_Z3addPfi"}}) {
    CAPTURE(named.source);
    SimFixture fixture("memory=64MiB,kernels=host");
    int launches = 0;
    const StandIn registered(named.source, [&](const sim::KernelLaunch& launch) {
      CHECK(launch.name == named.mangled);
      CHECK(launch.grid == std::array{3U, 2U, 1U});
      CHECK(launch.block == std::array{8U, 4U, 2U});
      CHECK(launch.shared_bytes == 64);
      ++launches;
      return sim::Kernel{};
    });
    CUfunction const function = CU(berthSimKernelByName)(named.mangled);
    CHECK(function == CU(berthSimKernelByName)(named.mangled));
    OK(CU(cuLaunchKernel)(function, 3, 2, 1, 8, 4, 2, 64, nullptr, nullptr, nullptr));
    CHECK(launches == 1);
  }
}

TEST_CASE("a stand-in in another language receives the launch and is released with its work") {
  struct Log {
    int computed = 0;
    int released = 0;
    std::uint64_t address = 0;
    sim_abi::KernelUse use{};
  } log;
  LaunchFixture fixture("kernels=host,progress=manual");
  const CUdeviceptr memory = make_memory(16);
  REQUIRE(CU(berthSimStandInForKernel)(
              "fill",
              [](const sim_abi::KernelLaunch* launch, sim_abi::KernelWork* work, void* data) {
                Log& own = *static_cast<Log*>(data);
                own.address = *static_cast<std::uint64_t*>(launch->arguments[0]);
                own.use = {own.address, 16, 1};
                *work = {.duration_ns = 5,
                         .uses = &own.use,
                         .use_count = 1,
                         .compute =
                             [](void* const* ranges, void* same) {
                               static_cast<unsigned char*>(ranges[0])[0] = 42;
                               ++static_cast<Log*>(same)->computed;
                             },
                         .release = [](void* same) { ++static_cast<Log*>(same)->released; },
                         .data = data};
                return own.address == 0 ? 1 : 0;
              },
              &log) == 0);
  const CUstream stream = make_stream();
  OK(fixture.launch(memory, 1, stream));
  CHECK(log.computed == 0);
  OK(CU(cuStreamSynchronize)(stream));
  CHECK(fixture.sim.peek(memory, 1) == bytes_of(1, 42));
  CHECK(log.computed == 1);
  CHECK(log.released == 1);
  CHECK(fixture.launch(0, 1, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(berthSimStandInForKernel)("fill", nullptr, nullptr) == 0);
  CHECK(CU(berthSimStandInForKernel)("", nullptr, nullptr) != 0);
  CHECK(fixture.launch(memory, 1, stream) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("the launch dimensions are checked against the device's limits in each mode") {
  for (const char* kernels : {"refuse", "skip"}) {
    LaunchFixture fixture(std::string("kernels=") + kernels);
    const CUstream stream = make_stream();
    const CUdeviceptr memory = make_memory(16);
    CHECK(fixture.launch(memory, 7, stream, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(fixture.launch(memory, 7, stream, 1025) == CUDA_ERROR_INVALID_VALUE);
    const auto launch = [&](unsigned grid_y, unsigned block_y, unsigned shared_bytes) {
      return CU(cuLaunchKernel)(fixture.fill, 1, grid_y, 1, 512, block_y, 1, shared_bytes, stream,
                                nullptr, nullptr);
    };
    CHECK(launch(65536, 1, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(launch(1, 3, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(launch(1, 2, 228 << 10) == CUDA_ERROR_INVALID_VALUE);
    CHECK(CU(cuLaunchKernel)(nullptr, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr) ==
          CUDA_ERROR_INVALID_HANDLE);
  }
}

// Source: CUDA Programming Guide, "Stream and Event Behavior".
TEST_CASE("a launch on a stream of another context than the current one is refused") {
  for (const char* kernels : {"refuse", "skip", "host"}) {
    CAPTURE(std::string(kernels));
    const StandIn stands("fill", stand_in);
    LaunchFixture fixture(std::string("devices=2,kernels=") + kernels);
    const CUdeviceptr memory = make_memory(16);
    const CUstream near = make_stream();
    OK(CU(cuCtxSetCurrent)(retain(1)));
    const CUstream far = make_stream();
    OK(CU(cuCtxSetCurrent)(fixture.context));
    CHECK(fixture.launch(memory, 1, far) == CUDA_ERROR_INVALID_HANDLE);
    std::uint64_t where = memory;
    std::uint32_t value = 1;
    void* arguments[] = {&where, &value};
    CHECK(CU(cuLaunchCooperativeKernel)(fixture.fill, 1, 1, 1, 1, 1, 1, 0, far, arguments) ==
          CUDA_ERROR_INVALID_HANDLE);
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = far;
    CHECK(CU(cuLaunchKernelEx)(&config, fixture.fill, arguments, nullptr) ==
          CUDA_ERROR_INVALID_HANDLE);
    CHECK(fixture.sim.pending_operations(far) == 0);
    if (std::string(kernels) != "refuse") CHECK(fixture.launch(memory, 1, near) == CUDA_SUCCESS);
    OK(CU(cuCtxSynchronize)());
  }
}

TEST_CASE("cuLaunchKernelEx launches on its stream and may be programmatic") {
  LaunchFixture fixture("progress=manual,kernels=skip");
  const CUstream stream = make_stream();
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.numAttrs = 1;
  CHECK(CU(cuLaunchKernelEx)(&config, fixture.fill, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  config.attrs = &attribute;
  OK(CU(cuLaunchKernelEx)(&config, fixture.fill, nullptr, nullptr));
  CHECK(fixture.sim.pending_operations(stream) == 1);
  CHECK(CU(cuLaunchKernelEx)(nullptr, fixture.fill, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("the kernels of a module are found in its PTX, and are unloaded with it") {
  LaunchFixture fixture("kernels=skip");
  CUfunction function = nullptr;
  CHECK(CU(cuModuleGetFunction)(&function, fixture.module, "fil") == CUDA_ERROR_NOT_FOUND);
  CHECK(CU(cuModuleGetFunction)(&function, fixture.module, "") == CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuModuleGetFunction)(&function, fixture.module, "fill"));
  CHECK(function == fixture.fill);
  CUmodule owner = nullptr;
  OK(CU(cuFuncGetModule)(&owner, function));
  CHECK(owner == fixture.module);
  const char* name = nullptr;
  OK(CU(cuFuncGetName)(&name, function));
  CHECK(std::string(name) == "fill");
  OK(CU(cuModuleUnload)(fixture.module));
  CHECK(CU(cuModuleUnload)(fixture.module) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(fixture.launch(0, 1, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CUmodule binary = nullptr;
  CHECK(CU(cuModuleLoadData)(&binary, "no code") == CUDA_ERROR_INVALID_IMAGE);
  OK(CU(cuModuleLoadFatBinary)(&binary, "\x50\xed\x55\xba"));
  OK(CU(cuModuleGetFunction)(&function, binary, "any"));
  OK(CU(cuDevicePrimaryCtxReset)(0));
  OK(CU(cuDevicePrimaryCtxRetain)(&fixture.context, 0));
  OK(CU(cuCtxSetCurrent)(fixture.context));
  CHECK(CU(cuModuleUnload)(binary) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuModuleLoad)(&binary, "/no/such/file") == CUDA_ERROR_FILE_NOT_FOUND);
  CHECK(CU(cuModuleLoad)(&binary, "/") == CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_CASE("a library has no context, and its kernels are functions in each") {
  LaunchFixture fixture("progress=manual,kernels=skip");
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  const auto load = [&](const void* code) {
    return CU(cuLibraryLoadData)(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
  };
  CHECK(load("no code") == CUDA_ERROR_INVALID_IMAGE);
  CHECK(load(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuLibraryLoadFromFile)(&library, "/no/such/file", nullptr, nullptr, 0, nullptr, nullptr,
                                  0) == CUDA_ERROR_FILE_NOT_FOUND);
  OK(load(kPtx));
  CHECK(CU(cuLibraryGetKernel)(&kernel, library, "fil") == CUDA_ERROR_NOT_FOUND);
  OK(CU(cuLibraryGetKernel)(&kernel, library, "fill"));
  CUlibrary owner = nullptr;
  const char* name = nullptr;
  CUfunction function = nullptr;
  CUmodule module = nullptr;
  OK(CU(cuKernelGetLibrary)(&owner, kernel));
  CHECK(owner == library);
  OK(CU(cuKernelGetName)(&name, kernel));
  CHECK(std::string(name) == "fill");
  OK(CU(cuKernelGetFunction)(&function, kernel));
  OK(CU(cuLibraryGetModule)(&module, library));
  CHECK(CU(cuModuleUnload)(module) == CUDA_ERROR_INVALID_HANDLE);
  const CUstream stream = make_stream();
  for (CUfunction launched : {function, reinterpret_cast<CUfunction>(kernel)})
    OK(CU(cuLaunchKernel)(launched, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  CHECK(fixture.sim.pending_operations(stream) == 2);
  CUlibrary none = reinterpret_cast<CUlibrary>(fixture.module);
  CHECK(CU(cuLibraryUnload)(none) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(CU(cuKernelGetName)(&name, reinterpret_cast<CUkernel>(fixture.fill)) ==
        CUDA_ERROR_INVALID_HANDLE);
  OK(CU(cuLibraryUnload)(library));
  CHECK(CU(cuKernelGetName)(&name, kernel) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("attributes of a kernel are the limits of its device") {
  LaunchFixture fixture("kernels=skip");
  const auto attribute = [&](int which) {
    int value = -7;
    OK(CU(cuFuncGetAttribute)(&value, static_cast<CUfunction_attribute>(which), fixture.fill));
    return value;
  };
  CHECK(attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024);
  CHECK(attribute(CU_FUNC_ATTRIBUTE_BINARY_VERSION) == 90);
  CHECK(attribute(CU_FUNC_ATTRIBUTE_NUM_REGS) == 32);
  int value = 0;
  CHECK(CU(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX, fixture.fill) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr) ==
        CUDA_ERROR_INVALID_HANDLE);
  OK(CU(cuFuncSetAttribute)(fixture.fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024));
  CHECK(CU(cuFuncSetAttribute)(fixture.fill, CU_FUNC_ATTRIBUTE_NUM_REGS, 1) ==
        CUDA_ERROR_INVALID_VALUE);
  OK(CU(cuFuncSetCacheConfig)(fixture.fill, CU_FUNC_CACHE_PREFER_L1));
  int blocks = -1;
  const auto count = [&](int threads, std::size_t shared_bytes) {
    return CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, fixture.fill, threads,
                                                           shared_bytes);
  };
  OK(count(1024, 0));
  CHECK(blocks == 2);
  OK(count(32, 100 << 10));
  CHECK(blocks == 2);
  OK(count(32, 1 << 20));
  CHECK(blocks == 0);
  CHECK(count(0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(count(1025, 0) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace launch_test
