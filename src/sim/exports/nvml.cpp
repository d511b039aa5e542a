// SPDX-License-Identifier: Apache-2.0
// libnvidia-ml.so.1 as the simulator gives it: NVIDIA's names for functions of the look-alike of
// libcuda.so.1, which it brings along, so that both see the same devices and the same memory.
#include "sim/exports/trampoline.hpp"
#include "sim/nvml/functions.hpp"

#define BERTH_SIM_BORROW(name, symbol) BERTH_SIM_EXPORT_BORROWED(#name, "berth_sim_lent_" #symbol)

#define BERTH_SIM_BORROW_OWN(member, symbol, type, need) BERTH_SIM_BORROW(symbol, symbol)
BERTH_NVML_FUNCTIONS(BERTH_SIM_BORROW_OWN)
#define BERTH_SIM_BORROW_SAME(symbol, parameters) BERTH_SIM_BORROW(symbol, symbol)
BERTH_SIM_NVML_FUNCTIONS(BERTH_SIM_BORROW_SAME)
BERTH_SIM_NVML_OLDER_NAMES(BERTH_SIM_BORROW)
BERTH_SIM_BORROW(nvmlErrorString, nvmlErrorString)
