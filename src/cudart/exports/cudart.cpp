// SPDX-License-Identifier: Apache-2.0
// libcudart.so.12 or libcudart.so.13: NVIDIA's names for the functions of src/cudart.
#include "cudart/functions.hpp"
#include "cudart/version.hpp"
#include "sim/exports/trampoline.hpp"

// A listed function by its exported name, and its form for the per-thread default stream.
#define BERTH_CUDART_EXPORT_plain(name, symbol) BERTH_SIM_EXPORT(name, "berth_cudart_" symbol)
#define BERTH_CUDART_EXPORT_ptsz(name, symbol) \
  BERTH_CUDART_EXPORT_plain(name, symbol)      \
      BERTH_SIM_EXPORT_POINTER(name "_ptsz", "berth_cudart_per_thread_" symbol)
#define BERTH_CUDART_EXPORT_ptds(name, symbol) \
  BERTH_CUDART_EXPORT_plain(name, symbol)      \
      BERTH_SIM_EXPORT_POINTER(name "_ptds", "berth_cudart_per_thread_" symbol)

#define BERTH_CUDART_MISSING_both(symbol) BERTH_SIM_EXPORT(symbol, "berth_cudart_missing_" symbol)

#if BERTH_CUDART_MAJOR == 12

#define BERTH_CUDART_IN12_same(symbol, null_stream) \
  BERTH_CUDART_EXPORT_##null_stream(symbol, symbol)
#define BERTH_CUDART_IN12_v2(symbol, null_stream) \
  BERTH_CUDART_EXPORT_##null_stream(symbol "_v2", symbol)
#define BERTH_CUDART_IN12_v3(symbol, null_stream) \
  BERTH_CUDART_EXPORT_##null_stream(symbol "_v3", symbol)
#define BERTH_CUDART_IN12_none(symbol, null_stream)
#define BERTH_CUDART_EXPORT(symbol, in12, null_stream) \
  BERTH_CUDART_IN12_##in12(#symbol, null_stream)

#define BERTH_CUDART_EXPORT_OLDER(symbol, type, null_stream) \
  BERTH_CUDART_EXPORT_##null_stream(#symbol, "12_" #symbol)
BERTH_CUDART_12_FUNCTIONS(BERTH_CUDART_EXPORT_OLDER)

#define BERTH_CUDART_MISSING_only12(symbol) BERTH_CUDART_MISSING_both(symbol)
#define BERTH_CUDART_MISSING_only13(symbol)

int berth_cudart_version() {
  return 12090;
}

#else

#define BERTH_CUDART_EXPORT(symbol, in12, null_stream) \
  BERTH_CUDART_EXPORT_##null_stream(#symbol, #symbol)

#define BERTH_CUDART_MISSING_only12(symbol)
#define BERTH_CUDART_MISSING_only13(symbol) BERTH_CUDART_MISSING_both(symbol)

// The version of the headers that the library is built with.
int berth_cudart_version() {
  return CUDART_VERSION;
}

#endif

BERTH_CUDART_FUNCTIONS(BERTH_CUDART_EXPORT)

#define BERTH_CUDART_EXPORT_MISSING(symbol, majors) BERTH_CUDART_MISSING_##majors(#symbol)
BERTH_CUDART_MISSING(BERTH_CUDART_EXPORT_MISSING)
