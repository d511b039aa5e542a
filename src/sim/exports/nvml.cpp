// SPDX-License-Identifier: Apache-2.0
// libnvidia-ml.so.1 as the simulator gives it. It has a simulator of its own, which reads BERTH_SIM
// as that of libcuda.so.1 does: the same devices, but not the memory that programs use through the
// other.
#include "sim/exports/trampoline.hpp"
#include "sim/functions.hpp"

#define BERTH_SIM_EXPORT_FUNCTION(member, symbol, type) \
  BERTH_SIM_EXPORT(#symbol, "berth_sim_" #symbol)
BERTH_NVML_FUNCTIONS(BERTH_SIM_EXPORT_FUNCTION)
