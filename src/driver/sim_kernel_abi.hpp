// SPDX-License-Identifier: Apache-2.0
// What the simulated driver offers a runtime above it: kernels by their names, and the current
// context without a call. For programs that are not in C++: host functions that stand in for
// kernels. As in sim_abi.hpp: a hardware driver lacks all of it, and cuGetProcAddress finds the
// functions by their names. Any thread may call them.
//
//   X(symbol, type)
#pragma once

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUfunc_st;

namespace berth::sim_abi {

/// The kernel of that name, for cuLaunchKernel; the same one each time. There is no device code: a
/// kernel has only a name. Null before cuInit.
using KernelByName = CUfunc_st*(const char* name);

/// What cuCtxGetCurrent returns, without its lock, and not counted as a call. Null if that is null
/// or an error.
using CurrentContext = CUctx_st*();

/// A launch, as in sim::KernelLaunch.
struct KernelLaunch {
  const char* name;
  unsigned grid[3];
  unsigned block[3];
  std::size_t shared_bytes;
  void* const* arguments;
};

/// A range that the launch uses, as sim::MemoryUse.
struct KernelUse {
  std::uint64_t address;
  std::size_t bytes;
  int writes;
};

/// What the launch does. All null and 0 is a kernel that touches nothing.
struct KernelWork {
  std::uint64_t duration_ns;
  const KernelUse* uses;  ///< read before the stand-in's caller goes on
  std::size_t use_count;
  /// Gets a pointer to a copy of each range, in their order; see sim::KernelFunction. May be null.
  void (*compute)(void* const* ranges, void* data);
  /// Called once when `compute` is not called any more, at the end of a driver call of any thread.
  /// May be null.
  void (*release)(void* data);
  void* data;
};

/// Fills `work`, which is all null and 0. Anything but 0 refuses the launch, with
/// CUDA_ERROR_INVALID_VALUE. See sim::KernelStandIn.
using KernelStandIn = int(const KernelLaunch* launch, KernelWork* work, void* data);

/// As sim::Simulator::stand_in_for(); `stand_in` null: nothing stands in any more. 0, or 1 where
/// `name` is null or empty.
using StandInForKernel = int(const char* name, KernelStandIn* stand_in, void* data);

// clang-format off
#define BERTH_SIM_KERNEL_FUNCTIONS(X) \
  X(berthSimKernelByName,     KernelByName) \
  X(berthSimCurrentContext,   CurrentContext) \
  X(berthSimStandInForKernel, StandInForKernel)
// clang-format on

}  // namespace berth::sim_abi
