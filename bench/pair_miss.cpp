// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a block that is allocated from the driver and returned to it. Nanoseconds
// for both, one thread, one stream. Rows: bytes.
#include "berth/bytes.hpp"

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"
#include "workloads/pair.hpp"

namespace berth::bench {

void add_benchmarks(Session& session) {
  for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
    if (!Allocator::kCallsDriver || !Allocator::kTrims) return;
    for (const std::size_t bytes : {std::size_t{512}, 1_MiB, 64_MiB}) {
      add(session, "pair_miss", Allocator::kName, std::to_string(bytes),
          [&session, bytes](benchmark::State& state) {
            Allocator allocator(session);
            MissPair pair(allocator, bytes, session.stream());
            time_steps(state, pair);
          });
    }
  });
}

}  // namespace berth::bench
