// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a cached block of pinned memory. Nanoseconds for one allocation and its free
// on one thread, compared with the driver, which pins and unpins. Rows: bytes.
#include "workloads/pinned_pair.hpp"

#include <cuda.h>

#include "berth/bytes.hpp"

#include "support/benchmarks.hpp"

namespace berth::bench {
namespace {

class DriverPair {
 public:
  DriverPair(const Driver& driver, std::size_t bytes) : driver_(driver), bytes_(bytes) {}
  void step() {
    void* data = nullptr;
    driver_.mem_host_alloc(&data, bytes_, unsigned{CU_MEMHOSTALLOC_PORTABLE});
    driver_.mem_free_host(data);
  }

 private:
  const Driver& driver_;
  const std::size_t bytes_;
};

}  // namespace

void add_benchmarks(Session& session) {
  for (const std::size_t bytes : {4_KiB, 64_KiB, 1_MiB, 8_MiB, 64_MiB}) {
    add(session, "pinned_pair", "berth", std::to_string(bytes),
        [&session, bytes](benchmark::State& state) {
          PinnedPair pair(session.runtime().pinned_memory(), bytes);
          time_steps(state, pair);
        });
    add(session, "pinned_pair", "driver", std::to_string(bytes),
        [&session, bytes](benchmark::State& state) {
          DriverPair pair(session.driver(), bytes);
          time_steps(state, pair);
        });
  }
}

}  // namespace berth::bench
