// SPDX-License-Identifier: Apache-2.0
// Contexts, and each thread's stack of current contexts. A primary context exists while the retain
// count of its device is above zero, unless it is reset; another context exists until its creator
// destroys it. Destroying a context destroys its objects. Contexts are guarded by sim::mutex; the
// stack is thread-local.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"
#include "sim/check/shadow_memory.hpp"
#include "sim/handle_table.hpp"
#include "sim/lock.hpp"
#include "sim/memory/address_space.hpp"
#include "sim/work/channel_waits.hpp"

namespace berth::sim {

struct State;

/// What a program sets for kernels, which has no effect.
struct ContextSettings {
  std::array<std::size_t, CU_LIMIT_MAX> limits = {};  ///< by CUlimit
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
};

struct Context {
  Context(Handle handle_, int device_, int ordinal_)
      : handle(handle_), device(device_), ordinal(ordinal_) {}

  Handle handle;
  int device;   ///< slot
  int ordinal;  ///< as cuDeviceGet counts
  /// The result of every further call, once work of this context has faulted.
  CUresult sticky = CUDA_SUCCESS;
  bool primary = false;  ///< its device's; otherwise a caller made it, and ends it
  unsigned flags = 0;    ///< CUctx_flags
  DeviceSet peers = 0;   ///< whose allocations it may reach
  ContextSettings settings;
  Handle legacy_stream = 0;
  std::uint64_t channels_dealt = 0;                              ///< to streams, in turn
  std::unordered_map<int, ChannelWaits> channel_waits;           // by channel
  std::unordered_map<std::uint64_t, Handle> per_thread_streams;  // by ThreadState::id
};

using Contexts = HandleTable<Context, HandleKind::context>;

/// The per-thread state of the driver.
struct ThreadState {
  ThreadState();
  ~ThreadState();  ///< ends the thread's default streams
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

  /// Drops contexts and capture mode of a destroyed simulator.
  void enter(std::uint64_t simulator_id);

  std::vector<Handle> stack;
  CallSite last_call = {};  ///< of this thread
  std::uint64_t id;
  std::uint64_t simulator_id = 0;
  const void* acts_for = nullptr;  ///< see sim/check/host_clocks.hpp; null: for itself
  bool in_host_function = false;
  bool null_stream_is_per_thread = false;  ///< in the call that runs
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

/// Of a type without a destructor, and ended by a key of POSIX threads: as with the real driver, a
/// static object that is destroyed at exit still finds the main thread's contexts. In the static
/// TLS block, so that an access is one instruction and no call.
[[gnu::tls_model("initial-exec")]] inline constinit thread_local ThreadState* thread_in_use =
    nullptr;
ThreadState& make_thread();

inline ThreadState& this_thread() {
  ThreadState* const thread = thread_in_use;
  return thread != nullptr ? *thread : make_thread();
}

/// Whether cuCtxCreate and cuDevicePrimaryCtxSetFlags accept `flags`.
bool are_context_flags(unsigned flags);
Context& make_context(State& state, int ordinal);
/// The device's primary context, created if there is none.
Context& retain_primary(State& state, int ordinal);
/// Waits for the work of `context`. False if the lock may have been released meanwhile, so that
/// there may be new work, or the context may be destroyed.
bool finish_work(State& state, Handle context) BERTH_REQUIRES(mutex);
/// Destroys `context` and its objects. Its streams are idle.
void destroy_context(State& state, Context& context) BERTH_REQUIRES(mutex);

}  // namespace berth::sim
