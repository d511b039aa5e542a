// SPDX-License-Identifier: Apache-2.0
// The environment of a BusyProgram except for its allocator: streams of the simulated driver in
// virtual time, kernels, and waits between streams. Its calls do not count as calls of the
// allocator.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "berth/stream.hpp"

#include "sim/functions.hpp"
#include "sim/simulator.hpp"
#include "support/simulated_session.hpp"
#include "workloads/busy_passes.hpp"
#include "workloads/busy_program.hpp"

namespace berth::bench {

class BusyMachine {
 public:
  BusyMachine(SimulatedSession& machine, std::size_t streams, std::uint64_t kernel_ns)
      : simulator_(machine.simulator()),
        kernel_ns_(kernel_ns),
        streams_(machine.session().streams(streams)) {
    if (kernel_ns_ != 0)
      call<decltype(&cuEventCreate)>("cuEventCreate", &event_, CU_EVENT_DISABLE_TIMING);
  }
  ~BusyMachine() {
    if (event_ == nullptr) return;
    sync();
    function<decltype(&cuEventDestroy)>("cuEventDestroy")(event_);
  }
  BusyMachine(const BusyMachine&) = delete;
  BusyMachine& operator=(const BusyMachine&) = delete;

  [[nodiscard]] StreamRef stream(std::uint32_t number) const { return streams_[number]; }

  /// A kernel that writes the block's first bytes.
  void launch(std::uint32_t stream, const void* block, std::size_t bytes) {
    if (kernel_ns_ == 0) return;
    simulator_.spend(launch_call_ns());
    std::vector<sim::MemoryUse> uses;
    if (bytes != 0) uses.push_back({reinterpret_cast<CUdeviceptr>(block), bytes, true});
    if (!simulator_.launch(streams_[stream].native(), kernel_ns_, uses))
      throw std::runtime_error("the simulator took no kernel");
  }
  void wait(std::uint32_t stream, std::uint32_t other) {
    if (kernel_ns_ == 0) return;
    call<decltype(&cuEventRecord)>("cuEventRecord", event_, streams_[other].native());
    call<decltype(&cuStreamWaitEvent)>("cuStreamWaitEvent", streams_[stream].native(), event_, 0U);
  }
  /// Waits until all work is done.
  void sync() {
    for (const StreamRef stream : streams_)
      call<decltype(&cuStreamSynchronize)>("cuStreamSynchronize", stream.native());
  }

 private:
  template <class Function>
  static Function function(const char* name) {
    return reinterpret_cast<Function>(sim::resolve(name));
  }
  template <class Function, class... Arguments>
  static void call(const char* name, Arguments... arguments) {
    if (const CUresult result = function<Function>(name)(arguments...); result != CUDA_SUCCESS)
      throw std::runtime_error(std::string(name) + " fails with " + std::to_string(result));
  }

  sim::Simulator& simulator_;
  const std::uint64_t kernel_ns_;
  const std::vector<StreamRef> streams_;
  CUevent event_ = nullptr;
};

}  // namespace berth::bench
