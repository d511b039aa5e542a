// SPDX-License-Identifier: Apache-2.0
// Does a call of the simulated driver take longer where much is alive? Nanoseconds a call, one
// thread, with the race detector, a work item of 64 bytes. Rows, each small and large:
//   alone, allocations  a mix of calls beside no and 100,000 other allocations
//   devices             the same where there are 64 devices with a context each
//   pending_1k, _1m     calls that submit work, behind a thousand and a million operations that
//                       have not run
// It has no peers, no Session and a main() of its own, as simulator_calls.cpp.
#include <cuda.h>

#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>

#include <benchmark/benchmark.h>

#include "sim/simulator.hpp"
#include "support/simulated_main.hpp"

namespace {

using namespace berth;

#define CU(symbol) ::berth::sim::berth_sim_##symbol

constexpr std::size_t kBytes = 64;

void need(CUresult result) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("a driver call failed: " + std::to_string(result));
}

struct Row {
  const char* name;
  int devices = 1;
  int allocations = 0;
  int pending = 0;
};

constexpr Row kRows[] = {
    {.name = "alone"},
    {.name = "allocations", .allocations = 100'000},
    {.name = "devices", .devices = 64},
    {.name = "pending_1k", .pending = 1'000},
    {.name = "pending_1m", .pending = 1'000'000},
};

CUdeviceptr allocate() {
  CUdeviceptr memory = 0;
  need(CU(cuMemAlloc)(&memory, kBytes));
  return memory;
}

/// A simulator with what the row asks for, and the objects of the calls.
class Subject {
 public:
  explicit Subject(const Row& row)
      : simulator_("memory=1GiB,poison=off,queue=off,devices=" + std::to_string(row.devices) +
                   (row.pending != 0 ? ",progress=manual" : "")) {
    need(CU(cuInit)(0));
    for (int device = row.devices; device-- != 0;) {
      CUcontext context = nullptr;
      need(CU(cuDevicePrimaryCtxRetain)(&context, device));
      need(CU(cuCtxSetCurrent)(context));
    }
    need(CU(cuStreamCreateWithPriority)(&stream_, CU_STREAM_NON_BLOCKING, 0));
    need(CU(cuEventCreate)(&event_, CU_EVENT_DISABLE_TIMING));
    memory_ = allocate();
    for (int i = 0; i < row.allocations; ++i) allocate();
    for (int i = 0; i < row.pending; ++i) fill();
  }

  /// Returns the number of calls.
  std::size_t mix() {
    fill();
    need(CU(cuEventRecord)(event_, stream_));
    need(CU(cuEventQuery)(event_));
    need(CU(cuStreamSynchronize)(stream_));
    unsigned type = 0;
    need(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory_));
    need(CU(cuMemFree)(allocate()));
    return 7;
  }
  std::size_t submit() {
    fill();
    need(CU(cuEventRecord)(event_, stream_));
    if (CU(cuEventQuery)(event_) != CUDA_ERROR_NOT_READY)
      throw std::runtime_error("work has run that was to be pending");
    return 3;
  }
  [[nodiscard]] bool is_clean() { return simulator_.take_findings().empty(); }

 private:
  void fill() { need(CU(cuMemsetD8Async)(memory_, 1, kBytes, stream_)); }

  sim::Simulator simulator_;
  CUstream stream_ = nullptr;
  CUevent event_ = nullptr;
  CUdeviceptr memory_ = 0;
};

void time_calls(benchmark::State& state, const Row& row) {
  try {
    Subject subject(row);
    std::size_t calls = 0;
    for (auto _ : state) calls += row.pending != 0 ? subject.submit() : subject.mix();
    state.SetItemsProcessed(static_cast<std::int64_t>(calls));
    if (!subject.is_clean()) state.SkipWithError("the simulator found a mistake in the calls");
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

void add_benchmarks() {
  for (const Row& row : kRows)
    benchmark::RegisterBenchmark((std::string("simulator_scale/berth/") + row.name).c_str(),
                                 [&row](benchmark::State& state) { time_calls(state, row); });
}

}  // namespace

int main(int argc, char** argv) {
  return berth::bench::run_simulated(argc, argv, "simulator_scale", add_benchmarks);
}
