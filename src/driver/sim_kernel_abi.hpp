// SPDX-License-Identifier: Apache-2.0
// How the simulated driver knows kernels, for a runtime above it. As in sim_abi.hpp: a hardware
// driver lacks it. cuGetProcAddress finds it by the name berthSimKernelByName.
#pragma once

struct CUfunc_st;

namespace berth::sim_abi {

/// The kernel of that name, for cuLaunchKernel; the same one each time. There is no device code: a
/// name is all that there is of a kernel. Null before cuInit.
/// Threads  any
using KernelByName = CUfunc_st*(const char* name);

}  // namespace berth::sim_abi
