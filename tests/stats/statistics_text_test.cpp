// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "berth/statistics.hpp"

#include "stats/statistics_samples.hpp"
#include "stats/text_format.hpp"
#include "support/errors.hpp"

namespace statistics_text_test {

using namespace berth;
using namespace berth::test;

namespace {

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

/// Every number as large as it can get.
MemorySnapshot full_snapshot() {
  MemorySnapshot snapshot;
  snapshot.allocator = "cuda:0";
  snapshot.largest_free_block_bytes = 1023_GiB;
  const Gauge bytes = {1022_GiB, 1023_GiB};
  const Gauge blocks = {123'456'789, 987'654'321};
  MemoryCounters& counters = snapshot.counters;
  counters.bytes_requested = counters.bytes_allocated = bytes;
  counters.bytes_active = counters.bytes_reserved = bytes;
  counters.bytes_metadata = bytes;
  counters.blocks_allocated = counters.blocks_pending = counters.blocks_free = blocks;
#define BERTH_SET(name, help) counters.name = 12'345'678'901;
  BERTH_MEMORY_TOTALS(BERTH_SET)
#undef BERTH_SET
  return snapshot;
}

}  // namespace

TEST_CASE("a device of a backend is listed with its buffers and its memory") {
  Statistics statistics;
  BackendDevice& device = statistics.backend_devices.emplace_back();
  device.device = Device::of(DeviceType::register_name("tpu"), 3);
  device.backend = "PJRT tpu";
  device.description.kind = "TPU v5 lite";
  device.memory.bytes_used = 1_GiB;
  device.memory.bytes_limit = 16_GiB;
  device.buffers = {1234, 2_MiB, 3_MiB, 5000, 4_MiB, 5_MiB, 6_MiB, 12_MiB};
  CHECK(contains(to_text(statistics),
                 "\ntpu:3     TPU v5 lite, PJRT tpu\n"
                 "  buffers   1,234 with 2.00 MiB, peak 3.00 MiB\n"
                 "  copies    4.00 MiB written, 5.00 MiB read, 6.00 MiB between devices\n"
                 "  staging   12.0 MiB for files\n"
                 "  memory    1.00 GiB of 16.0 GiB in use\n"));
}

TEST_CASE("the text of statistics shows devices, gauges, counters and streams") {
  CHECK(to_text(sample_statistics()) == R"(driver   sim (simulated), CUDA 12.2

device      memory  PCI               name
cuda:1    80.0 GiB  00000000:1A:00.0  NVIDIA H100 80GB HBM3
hidden    24.0 GiB  00000000:1B:00.0  NVIDIA GeForce RTX 4090

cuda:0
  reserved  11.5 MiB and 1.00 MiB asleep = 5.00 MiB active + 7.50 MiB cached
  refused   512 KiB of them, which the driver did not take back
  cached    7.50 MiB in 2 holes, the largest 5.00 MiB
  waste     150.0 %: peak reserved 15.0 MiB / peak requested 6.00 MiB - 1

                          current         peak
  bytes_requested        3.00 MiB     6.00 MiB
  bytes_allocated        4.00 MiB     7.00 MiB
  bytes_active           5.00 MiB     8.00 MiB
  bytes_reserved         11.5 MiB     15.0 MiB
  blocks_allocated              2           20
  blocks_pending                1           10
  blocks_free                   2           30
  bytes_metadata         96.0 KiB      192 KiB
  bytes_asleep           1.00 MiB     4.00 MiB
  blocks_in_graphs              1            3
  bytes_unreturnable      512 KiB     1.00 MiB

  allocations      1,234,567  allocations that succeeded
  frees            1,234,565  frees
  frees_deferred          44  frees that had to await an event of another stream
  frees_reclaimed         43  deferred frees that no event holds up any more

  stream                 cached    allocated      pending
  any                  5.00 MiB          0 B          0 B
  0x1000               2.00 MiB     3.00 MiB     1.00 MiB
  default                   0 B     1.00 MiB          0 B

pinned
  no allocations

driver calls
  cuMemCreate       12  cuMemMap          78
  cuEventRecord  3,456

copies   14.0 MiB in 11 direct, 12 staged, 13 on the host
         16 of pageable memory by the driver
         15 waits for staging memory
)");
}

TEST_CASE("the reason of an unusable driver is printed in full, wrapped") {
  Statistics statistics;
  statistics.driver = {"cuda", false,
                       "libcuda.so.1: cannot open shared object file: No such file or directory; "
                       "install the NVIDIA driver",
                       0};
  CHECK(to_text(statistics) ==
        "driver   cuda, not usable: libcuda.so.1: cannot open shared object file: No such\n"
        "         file or directory; install the NVIDIA driver\n"
        "devices  none\n");
}

TEST_CASE("counters other than zero are shown, and totals only there") {
  Statistics statistics;
  statistics.allocators = {full_snapshot()};
  const std::string text = to_text(statistics);
#define BERTH_CHECK_SHOWN(name, help) CHECK(contains(text, "\n  " #name " "));
  BERTH_MEMORY_GAUGES(BERTH_CHECK_SHOWN)
  BERTH_MEMORY_TOTALS(BERTH_CHECK_SHOWN)
#undef BERTH_CHECK_SHOWN
  statistics.allocators[0].counters.out_of_memory = 0;
  CHECK_FALSE(contains(to_text(statistics), "\n  out_of_memory "));
}

TEST_CASE("lines stay within 80 columns, with the largest numbers too") {
  Statistics statistics = sample_statistics();
  statistics.devices[0].name = "NVIDIA GeForce RTX 4090 Laptop GPU with a name that goes on and on";
  statistics.allocators.push_back(full_snapshot());
  statistics.driver_calls = {{"cuMemGetAllocationGranularity", 123'456'789},
                             {"cuDevicePrimaryCtxSetFlags", 1'234'567'890},
                             {"cuMemRelease", 1}};
  statistics.copies = {123'456'789, 123'456'789, 123'456'789, 1023_GiB, 123'456'789};
  CHECK(widest_line(to_text(statistics)) <= 80);
}

TEST_CASE("no line has trailing blanks") {
  CHECK_FALSE(contains(to_text(sample_statistics()), " \n"));
}

TEST_CASE("only the streams with the most cached memory are listed") {
  Statistics statistics;
  MemorySnapshot snapshot = snapshot_that_adds_up();
  for (std::uintptr_t i = 1; i <= 20; ++i)
    snapshot.segments[0].blocks.push_back({0, i << 20, 0, BlockState::free, stream_at(i << 16)});
  statistics.allocators = {snapshot};
  const std::string text = to_text(statistics);
  CHECK(contains(text, "0x140000"));
  CHECK_FALSE(contains(text, "0x10000 "));
  CHECK(contains(text, "and 15 more streams with less cached"));
}

TEST_CASE("digits are grouped by three") {
  CHECK(group_digits(0) == "0");
  CHECK(group_digits(999) == "999");
  CHECK(group_digits(1000) == "1,000");
  CHECK(group_digits(~std::uint64_t{0}) == "18,446,744,073,709,551,615");
}

TEST_CASE("wrapped text loses no word, and counts characters and not bytes") {
  std::string text;
  append_wrapped(text, "  ", std::string(100, 'x') + " y");
  CHECK(text == "  " + std::string(100, 'x') + "\n  y\n");
  text.clear();
  std::string umlauts;
  for (int i = 0; i < 78; ++i) umlauts += "\u00e4";
  append_wrapped(text, "", umlauts + " y");
  CHECK(text == umlauts + " y\n");
}

}  // namespace statistics_text_test
