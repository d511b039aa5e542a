// SPDX-License-Identifier: Apache-2.0
// Functions that are not implemented.
#include "cudart/missing_functions.hpp"

#include "base/unsupported_function.hpp"
#include "cudart/thread.hpp"

namespace berth::cudart {
namespace {

cudaError_t refuse_missing(std::atomic<bool>& named, const char* symbol) {
  name_unsupported(named, "berth's CUDA runtime", symbol, "cudaErrorNotSupported");
  return this_thread().note(cudaErrorNotSupported);
}

}  // namespace

#define BERTH_CUDART_DEFINE(symbol, majors) \
  BERTH_DEFINE_UNSUPPORTED(, cudaError_t, berth_cudart_missing_##symbol, #symbol, refuse_missing)
BERTH_CUDART_MISSING(BERTH_CUDART_DEFINE)
#undef BERTH_CUDART_DEFINE

}  // namespace berth::cudart
