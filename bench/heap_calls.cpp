// SPDX-License-Identifier: Apache-2.0
// How often does an allocator of device memory ask the host's heap once its cache is warm? Calls of
// malloc, free and their like. The simulated driver's own use of the heap is in the counts of what
// calls the driver.
#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"
#include "support/heap_counter.hpp"
#include "support/steady_counts.hpp"

namespace berth::bench {

void add_benchmarks(Session& session) {
  // Lives as long as what is registered.
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
