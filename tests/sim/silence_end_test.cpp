// SPDX-License-Identifier: Apache-2.0
// The end of the thread that runs work while the program makes no call: of the simulator, of the
// process, of the library, and in forked children.
#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "sim/flag.hpp"
#include "sim/sim_fixture.hpp"
#include "support/child_process.hpp"
#include "support/sanitizers.hpp"

namespace silence_end_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr const char* kMachine = "memory=64MiB,silence_ms=20,progress=random";
constexpr std::chrono::seconds kHang{kHangSeconds};

// The thread sanitizer starts no thread in the child of a process with threads.
#ifdef BERTH_UNDER_TSAN
constexpr bool kChildStartsThreads = false;
#else
constexpr bool kChildStartsThreads = true;
#endif

void pass_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

/// Whether a host function is called although the host makes no further call.
bool makes_progress(CUstream stream) {
  std::promise<void> done;
  const auto keep = [](void* data) { static_cast<std::promise<void>*>(data)->set_value(); };
  if (CU(cuLaunchHostFunc)(stream, keep, &done) != CUDA_SUCCESS) return false;
  return done.get_future().wait_for(kHang) == std::future_status::ready;
}

/// A simulator of its own, in a process that has none.
bool makes_progress_alone() {
  const sim::Simulator sim(kMachine);
  CUcontext context = nullptr;
  return CU(cuInit)(0) == CUDA_SUCCESS &&
         CU(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS &&
         CU(cuCtxPushCurrent)(context) == CUDA_SUCCESS && makes_progress(nullptr);
}

}  // namespace

TEST_CASE("a simulator ends while it counts looks, rests, or runs work of a silent program") {
  for (const int ms : {0, 5, 100}) {
    const SimFixture fixture(kMachine);
    OK(CU(cuMemsetD8Async)(make_memory(64), 1, 64, nullptr));
    pass_ms(ms);
  }
  std::promise<void> computes;
  bool has_computed = false;
  {
    SimFixture fixture(kMachine);
    REQUIRE(fixture.sim.launch(nullptr, {.duration_ns = 1000, .compute = [&](sim::KernelMemory) {
                                           computes.set_value();
                                           pass_ms(100);
                                           has_computed = true;
                                         }}));
    REQUIRE(computes.get_future().wait_for(kHang) == std::future_status::ready);
  }
  CHECK(has_computed);
}

TEST_CASE("a forked child has no such thread, and a simulator of its own starts one") {
  auto fixture = std::make_unique<SimFixture>(kMachine);
  const CUstream stream = make_stream();
  REQUIRE(makes_progress(stream));
  const auto child = exit_code_of([&] {
    alarm(kHangSeconds);
    CUstream refused = nullptr;
    if (CU(cuStreamCreate)(&refused, 0) != CUDA_ERROR_NOT_INITIALIZED) return 1;
    fixture.reset();
    if (kChildStartsThreads && !makes_progress_alone()) return 2;
    return 5;
  });
  CHECK(child == 5);
  CHECK(makes_progress(stream));
}

TEST_CASE("no work runs while the process ends") {
  static SimFixture* fixture = nullptr;
  static std::uint64_t run_before = 0;
  const auto child = exit_code_of([] {
    alarm(kHangSeconds);
    // As a destructor of the program that is slow: of an object that is older than the first work.
    std::atexit([] {
      pass_ms(400);
      _exit(fixture->sim.operations_run() == run_before ? 5 : 1);
    });
    fixture = new SimFixture("memory=64MiB,silence_ms=200,progress=timed");
    OK(CU(cuMemsetD8Async)(make_memory(64), 1, 64, make_stream()));
    run_before = fixture->sim.operations_run();
    return 0;
  });
  CHECK(child == 5);
}

TEST_CASE("the library may be closed while its thread runs") {
  const char* const folder = std::getenv("BERTH_SIM_LIBRARIES");
  if (folder == nullptr) {
    MESSAGE("skipped: BERTH_SIM_LIBRARIES does not name the folder of the look-alikes");
    return;
  }
  const std::string path = std::string(folder) + "/../../libberth_sim.so.0";
  const auto child = exit_code_of([&] {
    alarm(kHangSeconds);
    setenv("BERTH_SIM", kMachine, 1);
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return 1;
    const auto resolve =
        reinterpret_cast<void* (*)(const char*)>(dlsym(library, "berth_sim_resolve"));
    const auto find = [&](const char* symbol, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(resolve(symbol));
      return function != nullptr;
    };
    decltype(&CU(cuInit)) init = nullptr;
    decltype(&CU(cuDevicePrimaryCtxRetain)) retain_context = nullptr;
    decltype(&CU(cuCtxPushCurrent)) push = nullptr;
    decltype(&CU(cuMemAlloc)) allocate = nullptr;
    decltype(&CU(cuMemsetD8Async)) fill = nullptr;
    if (!find("cuInit", init) || !find("cuDevicePrimaryCtxRetain", retain_context) ||
        !find("cuCtxPushCurrent", push) || !find("cuMemAlloc", allocate) ||
        !find("cuMemsetD8Async", fill))
      return 2;
    CUcontext context = nullptr;
    CUdeviceptr memory = 0;
    if (init(0) != CUDA_SUCCESS || retain_context(&context, 0) != CUDA_SUCCESS ||
        push(context) != CUDA_SUCCESS || allocate(&memory, 64) != CUDA_SUCCESS ||
        fill(memory, 1, 64, nullptr) != CUDA_SUCCESS)
      return 3;
    if (dlclose(library) != 0) return 4;
    pass_ms(100);
    return 5;
  });
  CHECK(child == 5);
}

}  // namespace silence_end_test
