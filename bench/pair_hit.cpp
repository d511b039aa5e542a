// SPDX-License-Identifier: Apache-2.0
// What does a block cost that the allocator has cached? Nanoseconds for one allocation and its
// free, one thread, one stream. Rows: bytes.
#include "berth/bytes.hpp"

#include "peers/allocators.hpp"
#include "support/benchmarks.hpp"
#include "workloads/pair.hpp"

namespace berth::bench {

void add_benchmarks(Session& session) {
  for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
    for (const std::size_t bytes : {std::size_t{512}, 4_KiB, 64_KiB, 1_MiB, 8_MiB, 64_MiB}) {
      add(session, "pair_hit", Allocator::kName, std::to_string(bytes),
          [&session, bytes](benchmark::State& state) {
            Allocator allocator(session);
            HitPair pair(allocator, bytes, session.stream());
            time_steps(state, pair);
          });
    }
  });
}

}  // namespace berth::bench
