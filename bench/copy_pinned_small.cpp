// SPDX-License-Identifier: Apache-2.0
// Measures the overhead of submitting a small copy. Nanoseconds on the caller's thread to submit
// one copy of 4 KiB of pinned memory to the device, compared with the driver call alone.
#include <cuda.h>

#include "berth/bytes.hpp"

#include "support/benchmarks.hpp"

namespace berth::bench {
namespace {

constexpr std::size_t kBytes = 4_KiB;
// Fewer than the driver queues on a stream before it blocks the caller.
constexpr int kCopiesInFlight = 64;

struct Buffers {
  explicit Buffers(Session& session)
      : stream(session.stream()),
        host(session.runtime().pinned_memory().allocate(kBytes)),
        device(session.runtime().memory(session.device()).allocate(kBytes, stream)) {}
  StreamRef stream;
  Allocation host;
  Allocation device;
};

/// Times `submit()`, without the wait for the submitted work.
template <class Submit>
void time_submission(benchmark::State& state, StreamRef stream, Submit submit) {
  for (auto _ : state) {
    for (int copy = 0; copy < kCopiesInFlight; ++copy) submit();
    state.PauseTiming();
    stream.sync();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * kCopiesInFlight);
}

}  // namespace

void add_benchmarks(Session& session) {
  add(session, "copy_pinned_small", "berth", "", [&session](benchmark::State& state) {
    const Buffers buffers(session);
    Copier& copier = session.runtime().copier();
    time_submission(state, buffers.stream, [&] {
      copier.copy_async(buffers.device.data(), buffers.host.data(), kBytes, buffers.stream);
    });
  });
  add(session, "copy_pinned_small", "driver", "", [&session](benchmark::State& state) {
    const Buffers buffers(session);
    const auto target = reinterpret_cast<CUdeviceptr>(buffers.device.data());
    const auto source = reinterpret_cast<CUdeviceptr>(buffers.host.data());
    time_submission(state, buffers.stream, [&] {
      session.driver().memcpy_async(target, source, kBytes, buffers.stream.native());
    });
  });
}

}  // namespace berth::bench
