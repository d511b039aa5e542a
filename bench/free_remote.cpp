// SPDX-License-Identifier: Apache-2.0
// What does a block cost that one thread allocates and another one frees? Nanoseconds of wall time
// for both, while both threads run: half of what a pair costs on one thread where they do not get in
// each other's way.
#include <memory>
#include <optional>

#include "berth/bytes.hpp"

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"
#include "workloads/handover.hpp"

namespace berth::bench {
namespace {

constexpr std::size_t kBytes = 64_KiB;
constexpr int kThreads = 2;

template <class Allocator>
struct Shared {
  explicit Shared(Session& session)
      : allocator(session), handover(allocator, kBytes, session.stream()) {}
  Allocator allocator;
  Handover<Allocator> handover;
};

template <class Allocator>
void add_handover(Session& session) {
  auto shared = std::make_shared<std::optional<Shared<Allocator>>>();
  add(
      session, "free_remote", Allocator::kName, "",
      [&session, shared](benchmark::State& state) {
        const bool producer = state.thread_index() == 0;
        if (producer) shared->emplace(session);
        // The loop begins and ends for both threads at once: between, the allocator is there.
        for (auto _ : state) {
          Handover<Allocator>& handover = shared->value().handover;
          producer ? handover.produce() : handover.consume();
        }
        if (!producer) return;
        shared->reset();
        state.SetItemsProcessed(state.iterations() *
                                std::int64_t{Handover<Allocator>::kBatchBlocks});
      },
      kThreads)
      ->UseRealTime();
}

}  // namespace

void add_benchmarks(Session& session) {
  for_each_allocator(
      [&]<class Allocator>(std::type_identity<Allocator>) { add_handover<Allocator>(session); });
}

}  // namespace berth::bench
