// SPDX-License-Identifier: Apache-2.0
// What does a block cost that one thread allocates and another one frees? Nanoseconds of wall time
// while both threads run.
//   free_remote  the free alone
//   pair_remote  both: half of what a pair costs on one thread where they do not get in each other's
//                way
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

/// `report(state, handover, blocks)` on the producer's thread, once both are done.
template <class Allocator, class Report>
void add_handover(Session& session, const char* figure, Report report) {
  auto shared = std::make_shared<std::optional<Shared<Allocator>>>();
  add(
      session, figure, Allocator::kName, "",
      [&session, shared, report](benchmark::State& state) {
        const bool producer = state.thread_index() == 0;
        if (producer) shared->emplace(session);
        // The loop begins and ends for both threads at once: between, the allocator is there.
        for (auto _ : state) {
          Handover<Allocator>& handover = shared->value().handover;
          producer ? handover.produce() : handover.consume();
        }
        if (!producer) return;
        report(state, shared->value().handover,
               state.iterations() * std::int64_t{Handover<Allocator>::kBatchBlocks});
        shared->reset();
      },
      kThreads)
      ->UseRealTime();
}

template <class Allocator>
void add_handovers(Session& session) {
  using Remote = Handover<Allocator>;
  add_handover<Allocator>(session, "pair_remote",
                          [](benchmark::State& state, const Remote&, std::int64_t blocks) {
                            state.SetItemsProcessed(blocks);
                          });
  add_handover<Allocator>(session, "free_remote",
                          [](benchmark::State& state, const Remote& handover, std::int64_t blocks) {
                            state.counters["ns"] = static_cast<double>(handover.freeing().count()) /
                                                   static_cast<double>(blocks);
                          });
}

}  // namespace

void add_benchmarks(Session& session) {
  for_each_allocator(
      [&]<class Allocator>(std::type_identity<Allocator>) { add_handovers<Allocator>(session); });
}

}  // namespace berth::bench
