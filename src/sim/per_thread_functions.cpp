// SPDX-License-Identifier: Apache-2.0
// Source: CUDA Driver API, "Stream synchronization behavior".
#include "sim/per_thread_functions.hpp"

#include "sim/device/context.hpp"
#include "sim/reported_functions.hpp"

namespace berth::sim {
namespace {

/// During its lifetime, the null stream is this thread's default stream.
class NullStreamIsPerThread {
 public:
  NullStreamIsPerThread() : thread_(this_thread()), before_(thread_.null_stream_is_per_thread) {
    thread_.null_stream_is_per_thread = true;
  }
  ~NullStreamIsPerThread() { thread_.null_stream_is_per_thread = before_; }
  NullStreamIsPerThread(const NullStreamIsPerThread&) = delete;
  NullStreamIsPerThread& operator=(const NullStreamIsPerThread&) = delete;

 private:
  ThreadState& thread_;
  const bool before_;
};

template <auto function>
struct PerThread;

template <class... Arguments, CUresult (*function)(Arguments...)>
struct PerThread<function> {
  static CUresult call(Arguments... arguments) {
    const NullStreamIsPerThread scope;
    return function(arguments...);
  }
};

}  // namespace

extern "C" {
#define BERTH_SIM_DEFINE_PER_THREAD(symbol, name) \
  decltype(::symbol)* const berth_sim_##name =    \
      &Reported<Function::k_##symbol, &PerThread<&berth_sim_##symbol>::call>::call;
BERTH_SIM_PER_THREAD_FUNCTIONS(BERTH_SIM_DEFINE_PER_THREAD)
#undef BERTH_SIM_DEFINE_PER_THREAD
decltype(&berth_sim_cuMemPrefetchAsync_v1) const berth_sim_cuMemPrefetchAsync_ptsz =
    &Reported<Function::k_cuMemPrefetchAsync,
              &PerThread<&berth_sim_cuMemPrefetchAsync_v1>::call>::call;
}

}  // namespace berth::sim
