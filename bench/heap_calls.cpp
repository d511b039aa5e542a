// SPDX-License-Identifier: Apache-2.0
// Counts the heap calls (malloc, free and the like) of a device allocator with a warm cache. The
// counts of allocators that call the driver include the heap calls of the simulated driver.
#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"
#include "support/heap_counter.hpp"
#include "support/steady_counts.hpp"

namespace berth::bench {

void add_benchmarks(Session& session) {
  // Static, because the registered benchmarks use it.
  static SteadyCounts counts(session, "heap_calls", heap_calls_of_thread);
  for_each_allocator([]<class Allocator>(std::type_identity<Allocator>) {
    if constexpr (!std::is_same_v<Allocator, DriverAllocator>) {
      counts.add_pairs<Allocator>();
      counts.add_random_live_set<Allocator>();
      counts.add_replays<Allocator>();
    }
  });
  counts.add_pinned_pairs();
}

}  // namespace berth::bench
