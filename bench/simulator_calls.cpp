// SPDX-License-Identifier: Apache-2.0
// How long does a call of the simulated driver take? Nanoseconds a call, one thread, eager mode, a
// work item of 64 bytes. A test that makes a million calls should take a second, or five with the
// race detector on. Rows: what is called, `mix` being all of it, as two streams that pass work to
// each other call it; `mix_in_crowd` the same on blocking streams, among much else that is alive.
//   simulator_call         without checks
//   simulator_call_checked with the race detector
// It has no peers, no Session and a main() of its own: it measures the simulator, which hardware
// never stands in for, with configurations of its own.
#include <cuda.h>

#include <array>
#include <exception>
#include <stdexcept>
#include <string>

#include <benchmark/benchmark.h>

#include "berth/bytes.hpp"

#include "sim/simulator.hpp"
#include "support/simulated_main.hpp"

namespace {

using namespace berth;

#define CU(symbol) ::berth::sim::berth_sim_##symbol

constexpr std::size_t kBytes = 64;
constexpr std::size_t kGranule = 2_MiB;

void need(CUresult result) {
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("a driver call failed: " + std::to_string(result));
}

/// A simulator, and the objects of the calls.
class Subject {
 public:
  /// `crowd`: other streams with past work, which wait for the streams here and are awaited by them
  /// if the default stream is used, and other memory.
  explicit Subject(bool checks, bool crowd = false)
      : simulator_(std::string("memory=1GiB,poison=off,checks=") + (checks ? "on" : "off")) {
    CUcontext context = nullptr;
    void* pages = nullptr;
    need(CU(cuInit)(0));
    need(CU(cuDevicePrimaryCtxRetain)(&context, 0));
    need(CU(cuCtxSetCurrent)(context));
    for (CUstream& stream : streams_)
      need(CU(cuStreamCreateWithPriority)(&stream,
                                          crowd ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING, 0));
    for (CUevent& event : events_) need(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    need(CU(cuMemAlloc)(&device_, kBytes));
    need(CU(cuMemAlloc)(&other_, kBytes));
    need(CU(cuMemHostAlloc)(&pages, kBytes, 0));
    pinned_ = reinterpret_cast<CUdeviceptr>(pages);
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access_.location = properties_.location;
    access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    need(CU(cuMemAddressReserve)(&reserved_, kGranule, 0, 0, 0));
    need(CU(cuMemCreate)(&physical_, kGranule, &properties_, 0));
    need(CU(cuEventRecord)(events_[0], streams_[0]));
    if (crowd) make_crowd();
  }

  std::size_t memset() { return need(CU(cuMemsetD8Async)(device_, 1, kBytes, streams_[0])), 1; }
  std::size_t copy() { return copy_on(streams_[0], device_, pinned_); }
  std::size_t record() { return need(CU(cuEventRecord)(events_[0], streams_[0])), 1; }
  std::size_t wait_event() { return need(CU(cuStreamWaitEvent)(streams_[1], events_[0], 0)), 1; }
  std::size_t query_event() { return need(CU(cuEventQuery)(events_[0])), 1; }
  std::size_t query_stream() { return need(CU(cuStreamQuery)(streams_[0])), 1; }
  std::size_t synchronize() { return need(CU(cuStreamSynchronize)(streams_[0])), 1; }
  std::size_t set_context() {
    CUcontext context = nullptr;
    need(CU(cuCtxGetCurrent)(&context));
    need(CU(cuCtxSetCurrent)(context));
    return 2;
  }
  std::size_t attribute() {
    unsigned type = 0;
    need(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device_));
    return 1;
  }
  std::size_t make_event() {
    CUevent event = nullptr;
    need(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    need(CU(cuEventDestroy)(event));
    return 2;
  }
  std::size_t make_stream() {
    CUstream stream = nullptr;
    need(CU(cuStreamCreateWithPriority)(&stream, CU_STREAM_NON_BLOCKING, 0));
    need(CU(cuStreamDestroy)(stream));
    return 2;
  }
  std::size_t allocate() {
    CUdeviceptr memory = 0;
    need(CU(cuMemAlloc)(&memory, kBytes));
    need(CU(cuMemFree)(memory));
    return 2;
  }
  std::size_t map() {
    need(CU(cuMemMap)(reserved_, kGranule, 0, physical_, 0));
    need(CU(cuMemSetAccess)(reserved_, kGranule, &access_, 1));
    need(CU(cuMemUnmap)(reserved_, kGranule));
    return 3;
  }

  /// The first stream fills, the second copies after it, and the first continues after the copy.
  std::size_t mix() {
    std::size_t calls = memset() + copy() + record() + wait_event();
    calls += copy_on(streams_[1], other_, device_);
    need(CU(cuEventRecord)(events_[1], streams_[1]));
    need(CU(cuStreamWaitEvent)(streams_[0], events_[1], 0));
    calls += 2;
    calls += query_event() + query_stream() + synchronize() + set_context() + attribute();
    return calls + make_event() + make_stream() + allocate() + map();
  }

  /// Whether the simulator has no findings.
  [[nodiscard]] bool is_clean() { return simulator_.take_findings().empty(); }

 private:
  static void make_crowd() {
    constexpr int kStreams = 62;
    constexpr int kAllocations = 10'000;
    CUstream stream = nullptr;
    CUdeviceptr memory = 0;
    for (int i = 0; i < kAllocations; ++i) need(CU(cuMemAlloc)(&memory, kBytes));
    for (int i = 0; i < kStreams; ++i) {
      need(CU(cuStreamCreateWithPriority)(&stream, CU_STREAM_DEFAULT, 0));
      need(CU(cuMemAlloc)(&memory, kBytes));
      need(CU(cuMemsetD8Async)(memory, 1, kBytes, stream));
    }
  }
  std::size_t copy_on(CUstream stream, CUdeviceptr to, CUdeviceptr from) {
    need(CU(cuMemcpyAsync)(to, from, kBytes, stream));
    return 1;
  }

  sim::Simulator simulator_;
  std::array<CUstream, 2> streams_{};
  std::array<CUevent, 2> events_{};
  CUdeviceptr device_ = 0;
  CUdeviceptr other_ = 0;
  CUdeviceptr pinned_ = 0;
  CUdeviceptr reserved_ = 0;
  CUmemGenericAllocationHandle physical_ = 0;
  CUmemAllocationProp properties_{};
  CUmemAccessDesc access_{};
};

struct Row {
  const char* name;
  std::size_t (Subject::*call)();
  bool crowd = false;
};

void time_calls(benchmark::State& state, bool checks, const Row& row) {
  try {
    Subject subject(checks, row.crowd);
    std::size_t calls = 0;
    for (auto _ : state) calls += (subject.*row.call)();
    state.SetItemsProcessed(static_cast<std::int64_t>(calls));
    if (!subject.is_clean()) state.SkipWithError("the simulator found a mistake in the calls");
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

constexpr Row kRows[] = {
    {"mix", &Subject::mix},
    {"mix_in_crowd", &Subject::mix, true},
    {"cuMemsetD8Async", &Subject::memset},
    {"cuMemcpyAsync", &Subject::copy},
    {"cuEventRecord", &Subject::record},
    {"cuStreamWaitEvent", &Subject::wait_event},
    {"cuEventQuery", &Subject::query_event},
    {"cuStreamQuery", &Subject::query_stream},
    {"cuStreamSynchronize", &Subject::synchronize},
    {"cuCtxSetCurrent", &Subject::set_context},
    {"cuPointerGetAttribute", &Subject::attribute},
    {"cuEventCreate", &Subject::make_event},
    {"cuStreamCreate", &Subject::make_stream},
    {"cuMemAlloc", &Subject::allocate},
    {"cuMemMap", &Subject::map},
};

void add_benchmarks() {
  for (const bool checks : {false, true})
    for (const Row& row : kRows) {
      const std::string figure = checks ? "simulator_call_checked" : "simulator_call";
      benchmark::RegisterBenchmark(
          (figure + "/berth/" + row.name).c_str(),
          [=](benchmark::State& state) { time_calls(state, checks, row); });
    }
}

}  // namespace

int main(int argc, char** argv) {
  return berth::bench::run_simulated(argc, argv, "simulator_calls", add_benchmarks);
}
