// SPDX-License-Identifier: Apache-2.0
// The time of collective copies compared with one copy and with naive loops, in virtual time. The
// workloads are those of the benchmark `collectives`.
#include <doctest/doctest.h>

#include "sim/work/cost_model.hpp"
#include "workloads/virtual_collectives.hpp"

namespace collectives_speed_test {

using namespace berth;
using namespace berth::bench;

namespace {

double ratio(std::uint64_t ns, std::uint64_t base_ns) {
  return static_cast<double>(ns) / static_cast<double>(base_ns);
}

}  // namespace

TEST_CASE("a broadcast of 1 GiB to all of 8 devices takes 1.1 of one copy, a naive loop 7") {
  VirtualCollectives machine(8, 1_GiB);
  const std::uint64_t one = machine.one_copy();
  const double reached = ratio(machine.broadcast(), one);
  const double naive = ratio(machine.broadcast_naively(), one);
  const std::uint64_t one_call = sim::transfer_ns(sim::Engine::device_to_device, 1_GiB);
  const double of_one_call = ratio(machine.broadcast(), one_call);
  MESSAGE("broadcast: ", reached, " of one copy, ", of_one_call, " of one call; naive: ", naive);
  CHECK(reached <= 1.1);
  CHECK(of_one_call <= 1.16);  // which nothing can come in between of
  CHECK(naive >= 6.9);
}

TEST_CASE("a broadcast takes little longer with every device, and no longer with one") {
  for (const int devices : {2, 3, 4}) {
    CAPTURE(devices);
    VirtualCollectives machine(devices, 256_MiB);
    const double reached = ratio(machine.broadcast(), machine.one_copy());
    MESSAGE(devices, " devices: ", reached);
    CHECK(reached <= 1.01 + 0.06 * (devices - 2));
  }
}

TEST_CASE("from pinned memory 8 devices get 1 GiB four times as fast as each by itself") {
  VirtualCollectives machine(8, 1_GiB);
  const double gain = ratio(machine.broadcast_from_host_naively(), machine.broadcast_from_host());
  MESSAGE("gain: ", gain);
  CHECK(gain >= 4);
}

TEST_CASE("without peer access each device gets it from the host over its own link") {
  VirtualCollectives machine(8, 256_MiB, false);
  const double taken = ratio(machine.broadcast_from_host(), machine.broadcast_from_host_naively());
  MESSAGE("beside the naive loop: ", taken);
  CHECK(taken <= 1.01);
}

TEST_CASE("a scatter and a gather take the time of one shard, each on its own link") {
  VirtualCollectives machine(8, 512_MiB);
  const std::uint64_t in = sim::transfer_ns(sim::Engine::host_to_device, 64_MiB);
  const std::uint64_t out = sim::transfer_ns(sim::Engine::device_to_host, 64_MiB);
  const double scatter = ratio(machine.scatter(), in);
  const double gather = ratio(machine.gather(), out);
  MESSAGE("scatter: ", scatter, ", gather: ", gather, " of one shard's time");
  CHECK(scatter <= 1.15);
  CHECK(gather <= 1.15);
  CHECK(ratio(machine.scatter_naively(), in) >= 8);
  CHECK(ratio(machine.gather_naively(), out) >= 8);
}

}  // namespace collectives_speed_test
