// SPDX-License-Identifier: Apache-2.0
#include "sim/unsupported_functions.hpp"

#include "base/unsupported_function.hpp"
#include "sim/fork.hpp"

namespace berth::sim {
namespace {

CUresult refuse_unsupported(std::atomic<bool>& named, const char* symbol) {
  if (is_parents_driver()) return CUDA_ERROR_NOT_INITIALIZED;
  name_unsupported(named, "simulated driver", symbol, "CUDA_ERROR_NOT_SUPPORTED");
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

#define BERTH_SIM_DEFINE_UNSUPPORTED(symbol, since)                                      \
  BERTH_DEFINE_UNSUPPORTED(BERTH_API, CUresult, berth_sim_unsupported_##symbol, #symbol, \
                           refuse_unsupported)
BERTH_SIM_UNSUPPORTED(BERTH_SIM_DEFINE_UNSUPPORTED)
#undef BERTH_SIM_DEFINE_UNSUPPORTED

}  // namespace berth::sim
