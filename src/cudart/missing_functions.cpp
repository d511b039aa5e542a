// SPDX-License-Identifier: Apache-2.0
// Functions that are not implemented: each fails, and prints its name once on standard error. They
// read no arguments, so one type serves for all.
#include "cudart/missing_functions.hpp"

#include <atomic>

#include "cudart/notices.hpp"
#include "cudart/thread.hpp"

namespace berth::cudart {
namespace {

cudaError_t refuse(std::atomic<bool>& named, const char* symbol) {
  notice_once(named, "{} is not supported: it fails with cudaErrorNotSupported", symbol);
  return this_thread().note(cudaErrorNotSupported);
}

}  // namespace

extern "C" {
#define BERTH_CUDART_DEFINE(symbol, majors)     \
  cudaError_t berth_cudart_missing_##symbol();  \
  cudaError_t berth_cudart_missing_##symbol() { \
    static std::atomic<bool> named = false;     \
    return refuse(named, #symbol);              \
  }
BERTH_CUDART_MISSING(BERTH_CUDART_DEFINE)
#undef BERTH_CUDART_DEFINE
}

}  // namespace berth::cudart
