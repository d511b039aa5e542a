// SPDX-License-Identifier: Apache-2.0
// DeviceAllocatorOptions::cross_stream_reuse in programs whose host functions run on the simulated
// driver's thread.
#include <doctest/doctest.h>

#include "memory/reuse_fixture.hpp"
#include "support/reuse_policies.hpp"

namespace cross_stream_reuse_waits_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("no request fails while free memory would serve it: the last rung waits") {
  with_each_reuse([](CrossStreamReuse reuse) {
    with_each_backing([reuse](const DeviceAllocatorOptions& options) {
      ReuseTest test(reuse, options);
      const Stream first = test.stream();
      const Stream second = test.stream();
      static_cast<void>(test.cache(60_MiB, first));
      test.log.submit(first, "earlier");
      const Allocation block = test.allocate(50_MiB, second);
      const bool waits_on_stream = reuse >= CrossStreamReuse::behind_waits;
      CHECK(test.counters().stream_waits_inserted == (waits_on_stream ? 1 : 0));
      CHECK(test.log.is_done("earlier") == !waits_on_stream);
      CHECK(test.counters().out_of_memory == 0);
    });
  });
}

TEST_CASE("private pools follow the policy of their device") {
  with_each_reuse([](CrossStreamReuse reuse) {
    ReuseTest test(reuse);
    const Stream first = test.stream();
    const Stream second = test.stream();
    MemoryPool pool = test.memory.create_pool({.name = "pool"});
    { const Allocation block = pool.allocate(10_MiB, first); }
    { const Allocation block = pool.allocate(10_MiB, second); }
    CHECK(pool.counters().bytes_reserved.current ==
          (reuse == CrossStreamReuse::never ? 20_MiB : 10_MiB));
    { const Allocation large = pool.allocate(60_MiB, second); }
    test.log.submit(second, "earlier");
    { const Allocation large = pool.allocate(50_MiB, first); }
    CHECK((pool.counters().stream_waits_inserted > 0) == (reuse >= CrossStreamReuse::behind_waits));
  });
}

}  // namespace cross_stream_reuse_waits_test
