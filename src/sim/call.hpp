// SPDX-License-Identifier: Apache-2.0
// What every driver call begins with: the lock, the count, the refusals that are common to all, and
// the random mode's chance to run something.
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
  driver,   ///< that cuInit was called
  context,  ///< also a current context, which works
};

class BERTH_SCOPED_CAPABILITY Call {
 public:
  Call(Function function, Needs needs) BERTH_ACQUIRE(mutex);
  ~Call() BERTH_RELEASE();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// What the call must return at once; CUDA_SUCCESS where it may go on.
  [[nodiscard]] CUresult refusal() const { return refusal_; }
  [[nodiscard]] State& state() const { return *state_; }
  /// Which call this is.
  [[nodiscard]] CallSite site() const { return site_; }
  /// The current context; only with Needs::context. Not after a wait: another thread may have ended
  /// it meanwhile.
  [[nodiscard]] Context& context() const { return *context_; }

  /// The stream that `stream` means in this thread and context; null where it means none.
  [[nodiscard]] Stream* find_stream(CUstream stream);
  /// What is wrong with the context of `stream`; CUDA_SUCCESS where nothing is.
  [[nodiscard]] CUresult fault_of(const Stream& stream) const {
    return state_->contexts.find(stream.context)->sticky;
  }
  /// Waits for `awaited`, and says what that brought to light in `context`.
  CUresult wait(const Awaited& awaited, Handle context) BERTH_REQUIRES(mutex) {
    return wait_for(*state_, site_, awaited, context);
  }
  /// Before a call works in `context`, which is not the current one: see DriverLock.
  void await_driver_lock(Handle context) BERTH_REQUIRES(mutex);
  // As in submission.hpp. Each may wait: no pointer into the state holds afterwards.
  CUresult make_room(Stream*& stream) BERTH_REQUIRES(mutex) {
    return sim::make_room(*state_, site_, stream);
  }
  CUresult enqueue(Stream& stream, Work work) BERTH_REQUIRES(mutex) {
    return sim::enqueue(*state_, site_, stream, std::move(work));
  }
  CUresult end_submission(Stream& stream) BERTH_REQUIRES(mutex) {
    return sim::end_submission(*state_, site_, stream);
  }
  /// The same as wait() for a call that synchronises a stream, an event or a context: memory pools
  /// then give back what they need not keep.
  CUresult synchronize(const Awaited& awaited, Handle context) BERTH_REQUIRES(mutex);
  /// Whether all of `awaited` is done, which the host knows from then on.
  [[nodiscard]] bool sees_done(const Awaited& awaited);

 private:
  CUresult enter(Function function, Needs needs) BERTH_REQUIRES(mutex);
  /// Lets the fault plan have its way; what the call must return at once.
  CUresult inject_fault(Function function) BERTH_REQUIRES(mutex);

  CUresult refusal_;
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
