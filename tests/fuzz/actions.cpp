// SPDX-License-Identifier: Apache-2.0
#include "fuzz/actions.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "fuzz/cuda_rows.hpp"
#include "fuzz/graph_rows.hpp"
#include "fuzz/nvml_rows.hpp"
#include "sim/per_thread_functions.hpp"

namespace berth::fuzz {
namespace {

template <auto function>
CallResult call_plain(Turn& turn) {
  static_assert(kHasRow<function>,
                "tests/fuzz never calls this function: add its row, BERTH_FUZZ(symbol, ...)");
  return call<function>(function, turn);
}

/// `form` is the function's second form, with the same parameters.
template <auto function, auto* form>
CallResult call_per_thread(Turn& turn) {
  return call<function>(*form, turn);
}

std::vector<Action> make_actions() {
  std::vector<Action> actions;
  const auto add = [&](std::string_view name, CallResult (*act)(Turn&)) {
    actions.push_back({name, act});
  };
#define BERTH_FUZZ_CUDA(symbol, names, since) add(#symbol, &call_plain<&sim::berth_sim_##symbol>);
#define BERTH_FUZZ_PER_THREAD(symbol, name) \
  add(#name, &call_per_thread<&sim::berth_sim_##symbol, &sim::berth_sim_##name>);
#define BERTH_FUZZ_NVML(symbol, parameters) add(#symbol, &call_plain<&sim::berth_sim_##symbol>);
#define BERTH_FUZZ_NVML_USED(member, symbol, type, need) \
  add(#symbol, &call_plain<&sim::berth_sim_##symbol>);
  BERTH_SIM_FUNCTIONS(BERTH_FUZZ_CUDA)
  BERTH_SIM_PER_THREAD_FUNCTIONS(BERTH_FUZZ_PER_THREAD)
  add("cuMemPrefetchAsync_v1", &call_plain<&sim::berth_sim_cuMemPrefetchAsync_v1>);
  add("cuMemAdvise_v1", &call_plain<&sim::berth_sim_cuMemAdvise_v1>);
  add("cuGetProcAddress", &call_plain<&sim::berth_sim_cuGetProcAddress>);
  add("cuGetProcAddress_v2", &call_plain<&sim::berth_sim_cuGetProcAddress_v2>);
  BERTH_SIM_NVML_FUNCTIONS(BERTH_FUZZ_NVML)
  BERTH_NVML_FUNCTIONS(BERTH_FUZZ_NVML_USED)
  add("nvmlErrorString", &call_plain<&sim::berth_sim_nvmlErrorString>);
#undef BERTH_FUZZ_CUDA
#undef BERTH_FUZZ_PER_THREAD
#undef BERTH_FUZZ_NVML
#undef BERTH_FUZZ_NVML_USED
  for (const Action& step : simulator_steps()) actions.push_back(step);
  return actions;
}

}  // namespace

const std::vector<Action>& actions() {
  static const std::vector<Action> all = make_actions();
  return all;
}

std::size_t find_action(std::string_view name) {
  const auto found = std::find_if(actions().begin(), actions().end(),
                                  [&](const Action& action) { return action.name == name; });
  BERTH_CHECK(found != actions().end());
  return static_cast<std::size_t>(found - actions().begin());
}

CallResult check_result(CUresult code) {
  const char* name = nullptr;
  BERTH_CHECK(sim::berth_sim_cuGetErrorName(code, &name) == CUDA_SUCCESS && name != nullptr);
  return {static_cast<int>(code), true};
}

CallResult check_result(nvml::Return code) {
  const std::string_view text = sim::berth_sim_nvmlErrorString(code);
  BERTH_CHECK(text != "unknown error");
  return {code, false};
}

CallResult check_result(const char* text) {
  BERTH_CHECK(text != nullptr && *text != '\0');
  return {0, false};
}

}  // namespace berth::fuzz
