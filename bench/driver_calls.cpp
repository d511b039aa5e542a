// SPDX-License-Identifier: Apache-2.0
// Counts the driver calls of an allocator with a warm cache.
#include <memory>

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"
#include "support/steady_counts.hpp"

namespace berth::bench {

void add_benchmarks(Session& session) {
  // Static, because the registered benchmarks use it.
  static SteadyCounts counts(session, "driver_calls",
                             [&session] { return session.driver_calls(); });
  for_each_allocator([]<class Allocator>(std::type_identity<Allocator>) {
    if constexpr (Allocator::kCallsDriver && !std::is_same_v<Allocator, DriverAllocator>) {
      counts.add_pairs<Allocator>();
      counts.add_random_live_set<Allocator>();
      counts.add_replays<Allocator>();
    }
  });
  counts.add_pairs<DriverAllocator>();
  counts.add_pinned_pairs();
}

}  // namespace berth::bench
