// SPDX-License-Identifier: Apache-2.0
// The common beginning of all driver calls: the lock, the count, the common checks, and work that
// the random mode runs.
#pragma once

#include <cuda.h>

#include <utility>

#include "base/mutex.hpp"
#include "sim/functions.hpp"
#include "sim/lock.hpp"
#include "sim/state.hpp"
#include "sim/work/submission.hpp"

namespace berth::sim {

enum class Needs {
  driver,   ///< requires that cuInit was called
  context,  ///< also requires a current, working context
};

/// Applies the fault plan to call `site`. Returns the result that the call must return at once.
CUresult inject_fault(State& state, const CallSite& site) BERTH_REQUIRES(mutex);

class BERTH_SCOPED_CAPABILITY Call {
 public:
  Call(Function function, Needs needs) BERTH_ACQUIRE(mutex);
  ~Call() BERTH_RELEASE();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// The result that the call must return at once; CUDA_SUCCESS if it may continue.
  [[nodiscard]] CUresult refusal() const { return refusal_; }
  [[nodiscard]] State& state() const { return *state_; }
  /// Identifies this call.
  [[nodiscard]] CallSite site() const { return site_; }
  /// The current context; only with Needs::context. Not valid after a wait, because another thread
  /// may have destroyed it.
  [[nodiscard]] Context& context() const { return *context_; }

  /// The stream that `stream` refers to in this thread and context; null if there is none.
  [[nodiscard]] Stream* find_stream(CUstream stream);
  /// The fault of the context of `stream`; CUDA_SUCCESS if there is none.
  [[nodiscard]] CUresult fault_of(const Stream& stream) const {
    return state_->contexts.find(stream.context)->sticky;
  }
  /// Waits for `awaited`. Returns a fault of `context` that occurred during the wait.
  CUresult wait(const Awaited& awaited, Handle context) BERTH_REQUIRES(mutex) {
    return wait_for(*state_, site_, awaited, context);
  }
  /// Called before a call works in `context`, which is not the current one: see DriverLock.
  void await_driver_lock(Handle context) BERTH_REQUIRES(mutex);
  // See submission.hpp. Each may wait, which invalidates pointers into the state.
  CUresult make_room(Stream*& stream) BERTH_REQUIRES(mutex) {
    return sim::make_room(*state_, site_, stream);
  }
  CUresult enqueue(Stream& stream, Work work) BERTH_REQUIRES(mutex) {
    return sim::enqueue(*state_, site_, stream, std::move(work));
  }
  CUresult end_submission(Stream& stream) BERTH_REQUIRES(mutex) {
    return sim::end_submission(*state_, site_, stream);
  }
  /// The same after a wait or a record.
  CUresult end_wait(Stream& stream) BERTH_REQUIRES(mutex) {
    return sim::end_wait(*state_, site_, stream);
  }
  /// The same as wait() for a call that synchronizes a stream, an event or a context: memory pools
  /// then return unused memory.
  CUresult synchronize(const Awaited& awaited, Handle context) BERTH_REQUIRES(mutex);
  /// Whether all of `awaited` is complete. If so, the host has observed it.
  [[nodiscard]] bool sees_done(const Awaited& awaited);

 private:
  CUresult enter(Function function, Needs needs) BERTH_REQUIRES(mutex);
  /// False in a forked child, where every call is refused.
  const bool has_lock_;
  CUresult refusal_ = CUDA_ERROR_NOT_INITIALIZED;
  State* state_ = nullptr;
  Context* context_ = nullptr;
  CallSite site_;
};

template <class T>
Handle to_handle(T* opaque) {
  return reinterpret_cast<Handle>(opaque);
}

template <class T>
T from_handle(Handle handle) {
  return reinterpret_cast<T>(handle);
}

}  // namespace berth::sim
