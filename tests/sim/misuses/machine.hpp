// SPDX-License-Identifier: Apache-2.0
// Where the programs of misuse.hpp run: a simulator with two devices, device 0's context, current,
// and names for what a program makes, by which the reports speak of it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "berth/bytes.hpp"

#include "sim/sim_fixture.hpp"

/// Makes a call as careful host code does: its failure ends the program, and is its report.
#define TRY(symbol, ...) \
  ::berth::test::check(#symbol, ::berth::sim::berth_sim_##symbol(__VA_ARGS__))

namespace berth::test {

inline constexpr std::size_t kBytes = 4_KiB;
inline constexpr std::size_t kMachineGranule = 64_KiB;

/// "cuMemFree: CUDA_ERROR_INVALID_VALUE".
struct Failure {
  std::string report;
};

/// Throws Failure unless `result` is CUDA_SUCCESS.
void check(const char* function, CUresult result);

class Machine {
 public:
  Machine(const std::string& mode, bool planted);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Made for the current context; close() ends them.
  CUstream stream(const char* name, unsigned flags = CU_STREAM_NON_BLOCKING);
  CUevent event(unsigned flags = CU_EVENT_DISABLE_TIMING);
  CUdeviceptr memory(const char* name, std::size_t bytes = kBytes);
  CUdeviceptr pinned(const char* name, std::size_t bytes = kBytes);
  /// Device 1's context, not made current.
  CUcontext second_context();

  // Of one granule, for the program to end.
  CUdeviceptr reserve(const char* name);
  static CUmemGenericAllocationHandle create(int device = 0);
  static void map(CUdeviceptr address, CUmemGenericAllocationHandle physical);
  static void allow(CUdeviceptr address, int device = 0,
                    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  /// All of these.
  CUdeviceptr map_new(const char* name, int device = 0);
  static void unmap(CUdeviceptr address);

  void launch_reading(CUstream stream, CUdeviceptr address, std::size_t bytes = kBytes);
  void launch_writing(CUstream stream, CUdeviceptr address, std::size_t bytes = kBytes);
  /// The executable graph of what `body` does with `stream`, which close() ends.
  CUgraphExec captured(CUstream stream, const std::function<void()>& body);

  void name(CUdeviceptr address, std::size_t bytes, const char* name);
  void name(const void* handle, const char* name);
  /// Ends what was made here, the latest first, and the contexts.
  void close();
  /// What the simulator has found since this was asked, and what is alive: in the program's own
  /// names, without the numbers of calls.
  std::vector<std::string> findings();
  std::vector<std::string> alive();

  /// Whether the program makes its mistake.
  const bool planted;
  sim::Simulator sim;
  CUcontext context = nullptr;

 private:
  void launch(CUstream stream, const sim::MemoryUse& use);
  [[nodiscard]] std::string in_own_names(std::string text) const;

  std::vector<std::pair<std::string, std::string>> names_;  // as the simulator says it, as here
  std::vector<std::function<void()>> closers_;
  std::vector<CUdevice> retained_;  // a device for each time
};

/// Another context, current for the length of a scope.
struct Current {
  explicit Current(CUcontext context) { TRY(cuCtxPushCurrent, context); }
  ~Current() { CU(cuCtxPopCurrent)(nullptr); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

}  // namespace berth::test
