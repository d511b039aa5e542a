// SPDX-License-Identifier: Apache-2.0
// The functions in their form for the per-thread default stream, in which the null stream is the
// calling thread's default stream: pointers that the look-alikes jump through.
// Source: CUDA Runtime API, "Stream synchronization behavior".
#include "cudart/functions.hpp"
#include "cudart/thread.hpp"

namespace berth::cudart {
namespace {

template <auto function>
struct PerThread;

template <class... Arguments, cudaError_t (*function)(Arguments...)>
struct PerThread<function> {
  static cudaError_t call(Arguments... arguments) {
    const NullStreamIsPerThread scope;
    return function(arguments...);
  }
};

}  // namespace

extern "C" {
#define BERTH_CUDART_DEFINE_plain(symbol)
#define BERTH_CUDART_DEFINE_ptsz(symbol)                                          \
  extern decltype(berth_cudart_##symbol)* const berth_cudart_per_thread_##symbol; \
  decltype(berth_cudart_##symbol)* const berth_cudart_per_thread_##symbol =       \
      &PerThread<&berth_cudart_##symbol>::call;
#define BERTH_CUDART_DEFINE_ptds(symbol) BERTH_CUDART_DEFINE_ptsz(symbol)
#define BERTH_CUDART_DEFINE(symbol, in12, null_stream) BERTH_CUDART_DEFINE_##null_stream(symbol)
BERTH_CUDART_FUNCTIONS(BERTH_CUDART_DEFINE)
#undef BERTH_CUDART_DEFINE
#define BERTH_CUDART_DEFINE(symbol, type, null_stream) \
  BERTH_CUDART_DEFINE_##null_stream(12_##symbol)
BERTH_CUDART_12_FUNCTIONS(BERTH_CUDART_DEFINE)
#undef BERTH_CUDART_DEFINE
}

}  // namespace berth::cudart
