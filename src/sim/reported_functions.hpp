// SPDX-License-Identifier: Apache-2.0
// The functions as programs get them, by a look-alike or by name: each notes the errors that it
// returns, in the log and for the end of the run. A test that calls berth_sim_<symbol> itself sees
// its errors.
#pragma once

#include "sim/functions.hpp"

namespace berth::sim {

/// `function` has returned `result`, an error, to the program.
void note_failure(Function function, CUresult result);

template <Function id, auto function>
struct Reported;

template <Function id, class... Arguments, CUresult (*function)(Arguments...)>
struct Reported<id, function> {
  static CUresult call(Arguments... arguments) {
    const CUresult result = function(arguments...);
    // A query that finds pending work has not failed.
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) note_failure(id, result);
    return result;
  }
};

extern "C" {
// Pointers, so that the functions behind them can be made from the plain ones.
#define BERTH_SIM_DECLARE_REPORTED(symbol, names, since) \
  extern BERTH_API decltype(&berth_sim_##symbol) const berth_sim_reported_##symbol;
BERTH_SIM_FUNCTIONS(BERTH_SIM_DECLARE_REPORTED)
#undef BERTH_SIM_DECLARE_REPORTED
}

}  // namespace berth::sim
