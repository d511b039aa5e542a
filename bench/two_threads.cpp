// SPDX-License-Identifier: Apache-2.0
// Measures interference of two threads on one device. Nanoseconds of wall time for one pair that
// hits the cache, counting the pairs of both threads: half the time of one thread if they do not
// interfere. Figures: both threads on one stream, each on its own. The peer one_thread is berth
// with one thread.
#include <memory>
#include <optional>

#include "berth/bytes.hpp"

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"
#include "workloads/pair.hpp"

namespace berth::bench {
namespace {

constexpr std::size_t kBytes = 64_KiB;
constexpr int kPairs = 500'000;

template <class Allocator>
void add_threads(Session& session, const std::string& figure, const std::string& peer, int threads,
                 bool own_streams) {
  auto allocator = std::make_shared<std::optional<Allocator>>();
  add(
      session, figure, peer, "",
      [&session, allocator, own_streams, streams = session.streams(2)](benchmark::State& state) {
        const bool first = state.thread_index() == 0;
        const StreamRef stream = streams[own_streams ? std::size_t(state.thread_index()) : 0];
        if (first) allocator->emplace(session);
        // The loop begins and ends for both threads at once, so the allocator exists in between.
        std::optional<HitPair<Allocator>> pair;
        for (auto _ : state) {
          if (!pair) [[unlikely]]
            pair.emplace(allocator->value(), kBytes, stream);
          pair->step();
        }
        if (first) allocator->reset();
        state.SetItemsProcessed(state.iterations());
      },
      threads)
      ->UseRealTime()
      ->Iterations(kPairs);
}

}  // namespace

void add_benchmarks(Session& session) {
  for (const bool own_streams : {false, true}) {
    const std::string figure = own_streams ? "threads2_streams2" : "threads2_stream1";
    for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
      add_threads<Allocator>(session, figure, Allocator::kName, 2, own_streams);
    });
    add_threads<BerthAllocator>(session, figure, "one_thread", 1, own_streams);
  }
}

}  // namespace berth::bench
