// SPDX-License-Identifier: Apache-2.0
// Measures the cost of guards. Nanoseconds for a guard inside another guard of the same device, and
// for querying the current stream, compared with the equivalent driver calls (cuCtxPushCurrent and
// cuCtxPopCurrent, cuCtxGetCurrent) and with PyTorch.
#include <cuda.h>

#include "berth/current_stream.hpp"
#include "berth/device_guard.hpp"

#include "peers/torch_streams.hpp"
#include "support/benchmarks.hpp"

namespace berth::bench {
namespace {

class SameStreamGuard {
 public:
  explicit SameStreamGuard(Session& session) : stream_(session.stream()), outer_(stream_) {}
  void step() { const StreamGuard guard(stream_); }

 private:
  const StreamRef stream_;
  const StreamGuard outer_;
};

class SameDeviceGuard {
 public:
  explicit SameDeviceGuard(Session& session)
      : devices_(session.runtime().devices()),
        device_(session.device()),
        outer_(devices_, device_) {}
  void step() { const DeviceGuard guard(devices_, device_); }

 private:
  const DeviceRegistry& devices_;
  const Device device_;
  const DeviceGuard outer_;
};

class PushAndPop {
 public:
  explicit PushAndPop(Session& session)
      : driver_(session.driver()), context_(session.context().primary()) {}
  void step() {
    CUcontext popped = nullptr;
    driver_.ctx_push_current(context_);
    driver_.ctx_pop_current(&popped);
  }

 private:
  const Driver& driver_;
  const CUcontext context_;
};

class AskForStream {
 public:
  explicit AskForStream(Session& session) : stream_(session.stream()), outer_(stream_) {}
  void step() { static_cast<void>(current_stream(stream_.context())); }

 private:
  const StreamRef stream_;
  const StreamGuard outer_;
};

class AskForContext {
 public:
  explicit AskForContext(Session& session) : driver_(session.driver()) {}
  void step() {
    CUcontext current = nullptr;
    driver_.ctx_get_current(&current);
  }

 private:
  const Driver& driver_;
};

template <class Workload>
void add_steps(Session& session, const char* figure, const char* peer) {
  add(session, figure, peer, "", [&session](benchmark::State& state) {
    Workload workload(session);
    time_steps(state, workload);
  });
}

}  // namespace

void add_benchmarks(Session& session) {
  add_steps<SameStreamGuard>(session, "stream_guard_same", "berth");
  add_steps<PushAndPop>(session, "stream_guard_same", "driver");
  add_steps<SameDeviceGuard>(session, "device_guard_same", "berth");
  add_steps<PushAndPop>(session, "device_guard_same", "driver");
  add_steps<AskForStream>(session, "current_stream", "berth");
  add_steps<AskForContext>(session, "current_stream", "driver");
  add_torch_streams(session, "stream_guard_same", &PeerStreamFunctions::guard_stream);
  add_torch_streams(session, "device_guard_same", &PeerStreamFunctions::guard_device);
  add_torch_streams(session, "current_stream", &PeerStreamFunctions::ask_current);
}

}  // namespace berth::bench
