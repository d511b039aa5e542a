// SPDX-License-Identifier: Apache-2.0
// Gauges, and what threads note in their ledgers before they change them.
#include "memory/thread/ledger.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>

#include <doctest/doctest.h>

namespace ledger_test {

using namespace berth;

TEST_CASE("a gauge's peak is its highest value since it was set") {
  Gauge gauge{};
  raise_gauge(gauge, 10);
  CHECK(gauge.current == 10);
  CHECK(gauge.peak == 10);
  lower_gauge(gauge, 4);
  CHECK(gauge.current == 6);
  CHECK(gauge.peak == 10);
  raise_gauge(gauge, 3);
  CHECK(gauge.peak == 10);
  set_gauge(gauge, 12);
  CHECK(gauge.current == 12);
  CHECK(gauge.peak == 12);
  set_gauge(gauge, 12);
  set_gauge(gauge, 0);
  CHECK(gauge.current == 0);
  CHECK(gauge.peak == 12);
  gauge.peak = gauge.current;
  raise_gauge(gauge, 1);
  CHECK(gauge.peak == 1);
}

TEST_CASE("a gauge may be negative for a while without effect on its peak") {
  Gauge gauge{5, 8};
  lower_gauge(gauge, 7);
  CHECK(gauge.peak == 8);
  raise_gauge(gauge, 1);
  CHECK(gauge.peak == 8);
  raise_gauge(gauge, 6);
  CHECK(gauge.current == 5);
  CHECK(gauge.peak == 8);
  lower_gauge(gauge, 6);
  set_gauge(gauge, 9);
  CHECK(gauge.current == 9);
  CHECK(gauge.peak == 9);
}

TEST_CASE("gauges count up to 2^62 bytes") {
  constexpr std::uint64_t kMuch = std::uint64_t{1} << 62;
  Gauge gauge{};
  raise_gauge(gauge, kMuch);
  CHECK(gauge.peak == kMuch);
  lower_gauge(gauge, kMuch);
  CHECK(gauge.current == 0);
}

TEST_CASE("a combined change gives the same value and peak as its single steps") {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    Gauge stepped{1000, 1000 + random() % 50};
    Gauge applied = stepped;
    GaugeChange change;
    for (unsigned settling = 0; settling < 3; ++settling) {
      const auto steps = static_cast<unsigned>(random() % 12);
      std::int64_t sum = 0;
      for (unsigned step = 0; step < steps; ++step) {
        const std::uint64_t by = random() % 40;
        if (random() % 2 == 0) {
          raise_gauge(stepped, by);
          change.raise(by);
          sum += static_cast<std::int64_t>(by);
        } else {
          lower_gauge(stepped, by);
          change.lower(by);
          sum -= static_cast<std::int64_t>(by);
        }
      }
      CHECK(change.change() == sum);
      change.apply_to(applied);
      CHECK(change.change() == 0);
      REQUIRE(applied.current == stepped.current);
      REQUIRE(applied.peak == stepped.peak);
    }
  }
}

TEST_CASE("a settled change is reported only once") {
  Gauge gauge{};
  GaugeChange change;
  change.raise(10);
  change.lower(10);
  change.apply_to(gauge);
  CHECK(gauge.current == 0);
  CHECK(gauge.peak == 10);
  gauge.peak = 0;
  change.apply_to(gauge);
  CHECK(gauge.current == 0);
  CHECK(gauge.peak == 0);
}

TEST_CASE("a ledger counts requested and allocated bytes, blocks and allocations") {
  Ledger ledger;
  ledger.allocated(100, 512);
  ledger.allocated(600, 1024);
  ledger.freed(100, 512);
  CHECK(ledger.bytes_requested.change() == 600);
  CHECK(ledger.bytes_allocated.change() == 1024);
  CHECK(ledger.blocks_allocated.change() == 1);
  CHECK(ledger.allocations == 2);
  Gauge requested{};
  Gauge allocated{};
  Gauge blocks{};
  ledger.bytes_requested.apply_to(requested);
  ledger.bytes_allocated.apply_to(allocated);
  ledger.blocks_allocated.apply_to(blocks);
  CHECK(requested.peak == 700);
  CHECK(allocated.peak == 1536);
  CHECK(blocks.peak == 2);
  ledger.freed(600, 1024);  // what was settled is freed later
  CHECK(ledger.bytes_requested.change() == -600);
  CHECK(ledger.blocks_allocated.change() == -1);
  CHECK(ledger.allocations == 2);
}

TEST_CASE("ledgers of two threads give the same values, settled in either order") {
  for (const bool frees_first : {true, false}) {
    Ledger allocating;
    Ledger freeing;
    allocating.allocated(512, 512);
    allocating.allocated(512, 512);
    freeing.freed(512, 512);
    Gauge blocks{};
    if (frees_first) freeing.blocks_allocated.apply_to(blocks);
    allocating.blocks_allocated.apply_to(blocks);
    if (!frees_first) freeing.blocks_allocated.apply_to(blocks);
    CHECK(blocks.current == 1);
    CHECK(blocks.peak >= 1);
    CHECK(blocks.peak <= 2);
  }
}

}  // namespace ledger_test
