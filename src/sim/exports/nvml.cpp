// SPDX-License-Identifier: Apache-2.0
// libnvidia-ml.so.1 of the simulator: NVIDIA's names for functions of libberth_sim, which
// libcuda.so.1 of the simulator uses too, so both show the same devices and the same memory.
#include "sim/exports/trampoline.hpp"
#include "sim/nvml/functions.hpp"
#include "sim/nvml/unsupported.hpp"

#define BERTH_SIM_EXPORT_NVML(name, symbol) BERTH_SIM_EXPORT(#name, "berth_sim_" #symbol)

#define BERTH_SIM_EXPORT_OWN_NVML(member, symbol, type, need) BERTH_SIM_EXPORT_NVML(symbol, symbol)
BERTH_NVML_FUNCTIONS(BERTH_SIM_EXPORT_OWN_NVML)
#define BERTH_SIM_EXPORT_SAME_NVML(symbol, parameters) BERTH_SIM_EXPORT_NVML(symbol, symbol)
BERTH_SIM_NVML_FUNCTIONS(BERTH_SIM_EXPORT_SAME_NVML)
BERTH_SIM_NVML_OLDER_NAMES(BERTH_SIM_EXPORT_NVML)
BERTH_SIM_EXPORT_NVML(nvmlErrorString, nvmlErrorString)

#define BERTH_SIM_EXPORT_UNSUPPORTED(symbol) BERTH_SIM_EXPORT(#symbol, "berth_sim_nvml_unsupported")
BERTH_SIM_NVML_UNSUPPORTED(BERTH_SIM_EXPORT_UNSUPPORTED)
