// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a pooled event or stream. Nanoseconds to acquire and return it, compared
// with creation and destruction by driver calls, and with PyTorch's pool of streams, which returns
// 32 streams round-robin, in use or not. Events are without timing, and streams do not synchronize
// with the legacy default stream.
#include <cuda.h>

#include "peers/torch_streams.hpp"
#include "support/benchmarks.hpp"

namespace berth::bench {
namespace {

template <class Pool>
class Lending {
 public:
  explicit Lending(Pool& pool) : pool_(pool) { step(); }
  void step() { auto lease = pool_.acquire(); }

 private:
  Pool& pool_;
};

class NewEvent {
 public:
  explicit NewEvent(const Driver& driver) : driver_(driver) {}
  void step() {
    CUevent event = nullptr;
    driver_.event_create(&event, unsigned{CU_EVENT_DISABLE_TIMING});
    driver_.event_destroy(event);
  }

 private:
  const Driver& driver_;
};

class NewStream {
 public:
  explicit NewStream(const Driver& driver) : driver_(driver) {}
  void step() {
    CUstream stream = nullptr;
    driver_.stream_create_with_priority(&stream, unsigned{CU_STREAM_NON_BLOCKING}, 0);
    driver_.stream_destroy(stream);
  }

 private:
  const Driver& driver_;
};

template <class Workload, class Of>
void add_steps(Session& session, const char* figure, const char* peer, Of& of) {
  add(session, figure, peer, "", [&of](benchmark::State& state) {
    Workload workload(of);
    time_steps(state, workload);
  });
}

}  // namespace

void add_benchmarks(Session& session) {
  add_steps<Lending<EventPool>>(session, "event_acquire", "berth",
                                session.runtime().events(session.device()));
  add_steps<NewEvent>(session, "event_acquire", "driver", session.driver());
  add_steps<Lending<StreamPool>>(session, "stream_acquire", "berth",
                                 session.runtime().streams(session.device()));
  add_steps<NewStream>(session, "stream_acquire", "driver", session.driver());
  add_torch_streams(session, "stream_acquire", &PeerStreamFunctions::acquire);
}

}  // namespace berth::bench
