// SPDX-License-Identifier: Apache-2.0
#include "sim/reported_functions.hpp"

#include "sim/fork.hpp"
#include "sim/lock.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

/// cuGetExportTable looks at its caller, and only NVIDIA's own libraries ask for its tables.
template <Function id, auto function>
constexpr auto reported() {
  if constexpr (id == Function::k_cuGetExportTable)
    return function;
  else
    return &Reported<id, function>::call;
}

}  // namespace

void note_failure(Function function, CUresult result) {
  if (is_parents_driver()) return;
  MutexLock lock(mutex);
  State* const state = installed_state();
  if (state == nullptr) return;
  CallSite call = this_thread().last_call;
  if (call.function != function) call = {.function = function};
  if (state->log.on()) state->log.fails(call, result);
  if (!state->failed_calls.add()) return;
  call.stack = state->stacks.here();
  state->findings.note_failed_call(call, result);
}

extern "C" {
#define BERTH_SIM_DEFINE_REPORTED(symbol, names, since)             \
  decltype(&berth_sim_##symbol) const berth_sim_reported_##symbol = \
      reported<Function::k_##symbol, &berth_sim_##symbol>();
BERTH_SIM_FUNCTIONS(BERTH_SIM_DEFINE_REPORTED)
#undef BERTH_SIM_DEFINE_REPORTED
}

}  // namespace berth::sim
