// SPDX-License-Identifier: Apache-2.0
// What does it cost if one thread acquires and another one returns? Nanoseconds of wall time while
// both threads run.
//   free_remote   the free of a block alone
//   pair_remote   allocation and free: half of what a pair costs on one thread where they do not
//                 get in each other's way
//   event_remote  the same with a pooled event
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
constexpr int kBatches = 10'000;

/// Blocks of one size.
template <class Allocator>
class Blocks {
 public:
  using Item = void*;
  Blocks(Allocator& allocator, StreamRef stream) : allocator_(&allocator), stream_(stream) {}
  Item take() { return allocator_->allocate(kBytes, stream_); }
  void give_back(Item block) { allocator_->deallocate(block, kBytes, stream_); }

 private:
  Allocator* allocator_;
  StreamRef stream_;
};

template <class Allocator>
struct SharedBlocks {
  using Remote = Handover<Blocks<Allocator>>;
  explicit SharedBlocks(Session& session)
      : allocator(session), handover(Blocks(allocator, session.stream())) {}
  Allocator allocator;
  Remote handover;
};

/// Pooled events.
class Events {
 public:
  using Item = std::optional<EventLease>;
  explicit Events(EventPool& pool) : pool_(&pool) {}
  Item take() { return pool_->acquire(); }
  void give_back(Item& event) { event.reset(); }

 private:
  EventPool* pool_;
};

struct SharedEvents {
  using Remote = Handover<Events>;
  explicit SharedEvents(Session& session)
      : handover(Events(session.runtime().events(session.device()))) {}
  Remote handover;
};

/// `report(state, handover, items)` on the consuming thread, after both threads.
template <class Shared, class Report>
void add_handover(Session& session, const char* figure, const char* peer, Report report) {
  auto shared = std::make_shared<std::optional<Shared>>();
  add(
      session, figure, peer, "",
      [&session, shared, report](benchmark::State& state) {
        const bool producer = state.thread_index() == 0;
        if (producer) shared->emplace(session);
        // The loop begins and ends for both threads at once, so the shared objects exist in
        // between.
        for (auto _ : state) {
          auto& handover = shared->value().handover;
          producer ? handover.produce() : handover.consume();
        }
        if (!producer) return;
        report(state, shared->value().handover,
               state.iterations() * std::int64_t{Shared::Remote::kBatchItems});
        shared->reset();
      },
      kThreads)
      ->UseRealTime()
      ->Iterations(kBatches);
}

template <class Shared>
void add_giving_back(Session& session, const char* figure, const char* peer) {
  using Remote = typename Shared::Remote;
  add_handover<Shared>(session, figure, peer,
                       [](benchmark::State& state, const Remote& handover, std::int64_t items) {
                         state.counters["ns"] =
                             static_cast<double>(handover.giving_back().count()) /
                             static_cast<double>(items);
                       });
}

template <class Shared>
void add_pair(Session& session, const char* figure, const char* peer) {
  using Remote = typename Shared::Remote;
  add_handover<Shared>(session, figure, peer,
                       [](benchmark::State& state, const Remote&, std::int64_t items) {
                         state.SetItemsProcessed(items);
                       });
}

}  // namespace

void add_benchmarks(Session& session) {
  for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
    add_pair<SharedBlocks<Allocator>>(session, "pair_remote", Allocator::kName);
    add_giving_back<SharedBlocks<Allocator>>(session, "free_remote", Allocator::kName);
  });
  add_pair<SharedEvents>(session, "event_remote", "berth");
}

}  // namespace berth::bench
