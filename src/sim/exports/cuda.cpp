// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 of the simulator: NVIDIA's names for functions of libberth_sim.
#include "sim/exports/trampoline.hpp"
#include "sim/functions.hpp"
#include "sim/per_thread_functions.hpp"
#include "sim/reported_functions.hpp"
#include "sim/unsupported_functions.hpp"

// The exported names, by `names` in the list of functions.
#define BERTH_SIM_EXPORT_plain(symbol) \
  BERTH_SIM_EXPORT_POINTER(symbol, "berth_sim_reported_" symbol)
#define BERTH_SIM_EXPORT_v2(symbol) \
  BERTH_SIM_EXPORT_POINTER(symbol "_v2", "berth_sim_reported_" symbol)
#define BERTH_SIM_EXPORT_v3(symbol) \
  BERTH_SIM_EXPORT_POINTER(symbol "_v3", "berth_sim_reported_" symbol)
#define BERTH_SIM_EXPORT_v4(symbol) \
  BERTH_SIM_EXPORT_POINTER(symbol "_v4", "berth_sim_reported_" symbol)
#define BERTH_SIM_EXPORT_both(symbol) BERTH_SIM_EXPORT_plain(symbol) BERTH_SIM_EXPORT_v2(symbol)

#define BERTH_SIM_EXPORT_newer(symbol) BERTH_SIM_EXPORT_v2(symbol)

#define BERTH_SIM_EXPORT_FUNCTION(symbol, names, since) BERTH_SIM_EXPORT_##names(#symbol)
BERTH_SIM_FUNCTIONS(BERTH_SIM_EXPORT_FUNCTION)

#define BERTH_SIM_EXPORT_PER_THREAD(symbol, name) \
  BERTH_SIM_EXPORT_POINTER(#name, "berth_sim_" #name)
BERTH_SIM_PER_THREAD_FUNCTIONS(BERTH_SIM_EXPORT_PER_THREAD)

BERTH_SIM_EXPORT("cuGetProcAddress", "berth_sim_cuGetProcAddress")
BERTH_SIM_EXPORT("cuGetProcAddress_v2", "berth_sim_cuGetProcAddress_v2")

#define BERTH_SIM_EXPORT_OLDER(symbol, since) BERTH_SIM_EXPORT(#symbol, "berth_sim_" #symbol "_v1")
BERTH_SIM_OLDER_FUNCTIONS(BERTH_SIM_EXPORT_OLDER)
BERTH_SIM_EXPORT_POINTER("cuMemPrefetchAsync_ptsz", "berth_sim_cuMemPrefetchAsync_ptsz")

#define BERTH_SIM_EXPORT_UNSUPPORTED(symbol, since) \
  BERTH_SIM_EXPORT(#symbol, "berth_sim_unsupported_" #symbol)
BERTH_SIM_UNSUPPORTED(BERTH_SIM_EXPORT_UNSUPPORTED)
