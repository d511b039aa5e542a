// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a cached block. Nanoseconds for one allocation and its free, one thread, one
// stream. Rows: bytes. The peer mimalloc_1k is a pair of 1 KiB of host memory by a fast malloc,
// shown in all rows.
#include "berth/bytes.hpp"

#include "peers/allocators.hpp"
#include "peers/mimalloc.hpp"
#include "support/benchmarks.hpp"
#include "workloads/pair.hpp"

namespace berth::bench {
namespace {

class MimallocPair {
 public:
  explicit MimallocPair(const Mimalloc& mimalloc) : mimalloc_(mimalloc) { step(); }
  void step() { mimalloc_.deallocate(mimalloc_.allocate(1_KiB)); }

 private:
  const Mimalloc& mimalloc_;
};

void add_mimalloc(Session& session) {
  static const Mimalloc mimalloc;
  if (!mimalloc.usable()) return leave_out("mimalloc_1k", Mimalloc::kMissing);
  add(session, "pair_hit", "mimalloc_1k", "", [](benchmark::State& state) {
    MimallocPair pair(mimalloc);
    time_steps(state, pair);
  });
}

}  // namespace

void add_benchmarks(Session& session) {
  for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
    for (const std::size_t bytes : {std::size_t{512}, 4_KiB, 64_KiB, 1_MiB, 2_MiB, 8_MiB, 64_MiB}) {
      add(session, "pair_hit", Allocator::kName, std::to_string(bytes),
          [&session, bytes](benchmark::State& state) {
            Allocator allocator(session);
            HitPair pair(allocator, bytes, session.stream());
            time_steps(state, pair);
          });
    }
  });
  add_mimalloc(session);
}

}  // namespace berth::bench
