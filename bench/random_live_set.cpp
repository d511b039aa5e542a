// SPDX-License-Identifier: Apache-2.0
// Measures the cost of an allocation among many live blocks of many sizes. Nanoseconds for one free
// and one allocation. Rows: live blocks.
#include "workloads/random_live_set.hpp"

#include <memory>

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"

namespace berth::bench {

void add_benchmarks(Session& session) {
  for (const std::size_t live : {64UL, 1024UL, 16384UL}) {
    const auto replacements = std::make_shared<const Replacements>(live);
    for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
      add(session, "random_live_set", Allocator::kName, std::to_string(live),
          [&session, replacements](benchmark::State& state) {
            Allocator allocator(session);
            RandomLiveSet set(allocator, *replacements, session.stream());
            time_steps(state, set);
          });
    });
  }
}

}  // namespace berth::bench
