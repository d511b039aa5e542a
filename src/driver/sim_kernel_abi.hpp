// SPDX-License-Identifier: Apache-2.0
// The kernels of the simulated driver, for a runtime above it. As in sim_abi.hpp: a hardware driver
// lacks it. cuGetProcAddress finds it by the name berthSimKernelByName.
#pragma once

struct CUfunc_st;

namespace berth::sim_abi {

/// The kernel of that name, for cuLaunchKernel; the same one each time. There is no device code: a
/// kernel has only a name. Null before cuInit.
/// Threads  any
using KernelByName = CUfunc_st*(const char* name);

}  // namespace berth::sim_abi
