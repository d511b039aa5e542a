// SPDX-License-Identifier: Apache-2.0
// Blocks that a second stream uses. Work is pending throughout: in manual progress it runs only
// where a test steps it or a host call waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "memory/memory_fixture.hpp"

namespace berth::test {

/// Blocks of stream `own`, and what becomes of them.
struct UseTest : MemoryTest {
  static constexpr std::size_t kBytes = 32_MiB;

  explicit UseTest(const DeviceAllocatorOptions& options = {},
                   const sim::Config& config = manual_progress())
      : MemoryTest(config, options) {}

  void* allocate() { return memory.allocate_raw(kBytes, own); }
  void use(void* data, StreamRef by, const std::string& name) {
    log.submit(by, name);
    memory.record_use(data, by);
  }
  /// Runs `by` until the work `name` is done, and what marks its end.
  void run_to_the_end_of(const std::string& name, StreamRef by) {
    while (!log.is_done(name)) REQUIRE(run_next(by));
    run_next(by);
  }
  /// Whether a request of the same size on the same stream gets the block, which was freed.
  [[nodiscard]] bool is_reused(void* data) {
    Allocation again = memory.allocate(kBytes, own);
    check_whole(memory);
    const bool same = again.data() == data;
    others.push_back(std::move(again));
    return same;
  }
  [[nodiscard]] std::uint64_t calls(std::string_view function) const {
    return driver_calls(*runtime, function);
  }

  Stream own = stream();
  Stream user = stream();
  std::vector<Allocation> others;
};

}  // namespace berth::test
