// SPDX-License-Identifier: Apache-2.0
// Forked children: CUDA does not work in the child of a process that has initialized it, and works
// in any other child. NVML works in both, once the child has initialized it.
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "sim/nvml_fixture.hpp"
#include "sim/work/stand_ins.hpp"
#include "support/child_process.hpp"
#include "support/sanitizers.hpp"
#include "support/thinned.hpp"

namespace forked_child_test {

using namespace berth;
using namespace berth::test;

namespace {

template <class... Arguments>
CUresult call_with_zeros(CUresult (*function)(Arguments...)) {
  return function(Arguments{}...);
}

/// The functions that, called without arguments, do not return CUDA_ERROR_NOT_INITIALIZED.
std::set<std::string> functions_that_work() {
  std::set<std::string> names;
#define BERTH_TEST_CALL(symbol, versions, since)                               \
  if (call_with_zeros(&sim::berth_sim_##symbol) != CUDA_ERROR_NOT_INITIALIZED) \
    names.insert(#symbol);
  BERTH_SIM_FUNCTIONS(BERTH_TEST_CALL)
#undef BERTH_TEST_CALL
  return names;
}

/// NVML for the time of a test.
struct NvmlUser {
  NvmlUser() { REQUIRE(CU(nvmlInit_v2)() == nvml::kSuccess); }
  ~NvmlUser() { CHECK(CU(nvmlShutdown)() == nvml::kSuccess); }
  NvmlUser(const NvmlUser&) = delete;
  NvmlUser& operator=(const NvmlUser&) = delete;
};

/// A thread that is almost always in a call, and holds the driver's lock there.
class BusyThread {
 public:
  template <class Call>
  explicit BusyThread(const Call& call)
      : thread_([this, call] {
          while (!stop_) call();
        }) {}
  ~BusyThread() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

const std::size_t kRounds = Thinned(5).part_of(200);

}  // namespace

TEST_CASE_FIXTURE(EagerFixture, "in the child of a process that uses the driver no call works") {
  CHECK(functions_that_work().contains("cuCtxGetCurrent"));
  CHECK(exit_code_without_waiting([] {
          return functions_that_work() ==
                 std::set<std::string>{"cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
                                       "cuGetExportTable"};
        }) == 0);
  CUcontext current = nullptr;
  CHECK(CU(cuCtxGetCurrent)(&current) == CUDA_SUCCESS);
}

TEST_CASE_FIXTURE(EagerFixture, "the child of a process that is busy in the driver never waits") {
  const CUdeviceptr memory = make_memory(1 << 20);
  const BusyThread fills([this, memory] {
    OK(CU(cuCtxSetCurrent)(context));
    OK(CU(cuMemsetD8)(memory, 1, 1 << 20));
  });
  const BusyThread looks_up([] { static_cast<void>(sim::resolve("cuMemAlloc")); });
  for (std::size_t round = 0; round < kRounds; ++round) {
    CHECK(exit_code_without_waiting([] {
            int version = 0;
            CUdeviceptr pointer = 0;
            const int word = 0;
            CU(berthSimHostReleases)(&word);
            CU(berthSimHostObserves)(&word, 0);
            return CU(cuInit)(0) == CUDA_ERROR_NOT_INITIALIZED &&
                   CU(cuMemAlloc)(&pointer, 512) == CUDA_ERROR_NOT_INITIALIZED &&
                   CU(cuDriverGetVersion)(&version) == CUDA_SUCCESS && version == 13000 &&
                   CU(berthSimKernelByName)("fill") == nullptr &&
                   CU(berthSimCurrentContext)() == nullptr && sim::resolve("cuMemAlloc") != nullptr;
          }) == 0);
  }
}

TEST_CASE("the child of a process that has not initialized the driver may use it") {
  const sim::Simulator sim("devices=2");
  const NvmlUser user;
  const BusyThread measures([] {
    nvml::Memory memory{};
    static_cast<void>(CU(nvmlDeviceGetMemoryInfo)(nvml_device(0), &memory));
  });
  const BusyThread registers([] { sim::set_stand_in("fill", nullptr); });
  const BusyThread looks_up([] { static_cast<void>(sim::resolve("cuMemAlloc")); });
  for (std::size_t round = 0; round < kRounds; ++round) {
    CHECK(exit_code_without_waiting([] {
            sim::set_stand_in("fill", nullptr);
            CUcontext context = nullptr;
            CUdeviceptr pointer = 0;
            return CU(cuInit)(0) == CUDA_SUCCESS &&
                   CU(cuDevicePrimaryCtxRetain)(&context, 1) == CUDA_SUCCESS &&
                   CU(cuCtxPushCurrent)(context) == CUDA_SUCCESS &&
                   CU(cuMemAlloc)(&pointer, 512) == CUDA_SUCCESS;
          }) == 0);
  }
}

TEST_CASE_FIXTURE(EagerFixture, "NVML must be initialized again in a child, and then works") {
  const NvmlUser user;
  const auto parent = static_cast<unsigned>(getpid());
  const BusyThread measures([] {
    nvml::Memory memory{};
    static_cast<void>(CU(nvmlDeviceGetMemoryInfo)(nvml_device(0), &memory));
  });
  for (std::size_t round = 0; round < kRounds; ++round) {
    CHECK(exit_code_without_waiting([parent] {
            unsigned count = 0;
            if (CU(nvmlDeviceGetCount_v2)(&count) != nvml::kUninitialized) return false;
            if (CU(nvmlInit_v2)() != nvml::kSuccess) return false;
            nvml::ProcessInfo process{};
            unsigned processes = 1;
            const bool listed = CU(nvmlDeviceGetComputeRunningProcesses_v3)(
                                    nvml_device(0), &processes, &process) == nvml::kSuccess;
            return CU(nvmlDeviceGetCount_v2)(&count) == nvml::kSuccess && count == 2 && listed &&
                   processes == 1 && process.pid == parent &&
                   CU(nvmlShutdown)() == nvml::kSuccess &&
                   CU(nvmlDeviceGetCount_v2)(&count) == nvml::kUninitialized;
          }) == 0);
  }
}

TEST_CASE("a child ends the parent's simulator without its threads, and can have its own") {
  auto sim = std::make_unique<sim::Simulator>("devices=2,progress=manual");
  OK(CU(cuInit)(0));
  CUcontext context = retain(0);
  OK(CU(cuCtxPushCurrent)(context));
  CUstream stream = make_stream();
  std::atomic<bool> has_run = false;
  OK(CU(cuLaunchHostFunc)(
      stream, [](void* data) { *static_cast<std::atomic<bool>*>(data) = true; }, &has_run));
  OK(CU(cuStreamSynchronize)(stream));  // the driver has a thread now
  CHECK(exit_code_of([&] {
          alarm(kHangSeconds);
          if (sim->live().streams != 1) return 1;
          sim.reset();
          if (CU(cuInit)(0) != CUDA_ERROR_NOT_INITIALIZED) return 2;
          const sim::Simulator own("devices=3");
          int count = 0;
          const bool works = CU(cuInit)(0) == CUDA_SUCCESS &&
                             CU(cuDeviceGetCount)(&count) == CUDA_SUCCESS && count == 3;
          return works ? 5 : 3;
        }) == 5);
  CHECK(sim->live().streams == 1);
  OK(CU(cuStreamDestroy)(stream));
  OK(CU(cuDevicePrimaryCtxRelease)(0));
  REQUIRE(sim->take_findings().empty());
}

// The thread sanitizer supports no child of a thread that is not the main one.
#ifndef BERTH_UNDER_TSAN
TEST_CASE_FIXTURE(EagerFixture, "a thread that has used the driver ends in the child") {
  pid_t child = -1;
  std::thread forks([&] {
    OK(CU(cuCtxSetCurrent)(context));
    OK(CU(cuMemsetD8Async)(make_memory(64), 1, 64, CU_STREAM_PER_THREAD));
    child = fork();
    if (child == 0) alarm(kHangSeconds);
  });
  // In the child there is no main thread: the process ends with the thread, by exit(0).
  forks.join();
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

}  // namespace forked_child_test
