// SPDX-License-Identifier: Apache-2.0
// How fast is a copy of pageable memory, how long does a small copy wait behind a large one, and
// what does a batch of copies save? Nanoseconds of virtual time on a simulated link of 55 GB/s
// (workloads/virtual_copies.hpp), so that the values depend on no machine.
//   copy_pageable_in, _out  1 GiB, beside the driver's own means and a naive loop. Rows: threads
//   copy_behind_gigabyte    the longest of 100 copies of 64 KiB, each way, behind 1 GiB of pinned
//                           memory, beside the driver's one call. Rows: directions
//   copy_scattered          4,096 ranges of 32 KiB of pinned memory as one batch, beside the
//                           copier's single copies. Rows: directions
#include <exception>
#include <functional>
#include <string>

#include <benchmark/benchmark.h>

#include "berth/copier.hpp"

#include "support/simulated_main.hpp"
#include "workloads/scattered_copies.hpp"
#include "workloads/virtual_copies.hpp"

namespace berth::bench {
namespace {

constexpr std::size_t kBytes = 1_GiB;
constexpr std::size_t kSmallBytes = 64_KiB;
constexpr int kSmallCopies = 100;
constexpr std::size_t kScatteredBytes = 32_KiB;
constexpr std::size_t kScatteredCount = 4096;

void add_ns(const std::string& name, const std::function<std::uint64_t()>& measure) {
  const auto run = [measure](benchmark::State& state) {
    try {
      for (auto _ : state) state.counters["ns"] = static_cast<double>(measure());
    } catch (const std::exception& error) {
      state.SkipWithError(error.what());
    }
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->Iterations(1)->Repetitions(1);
}

void add_pageable(const std::string& figure, Direction direction) {
  for (const std::size_t threads : {1, 2, 4, 6}) {
    add_ns(figure + "/berth/" + std::to_string(threads),
           [=] { return VirtualCopies(threads).staged(direction, kBytes); });
  }
  add_ns(figure + "/driver", [=] { return VirtualCopies(1).by_driver(direction, kBytes); });
  add_ns(figure + "/naive", [=] { return VirtualCopies(1).naively(direction, kBytes); });
}

void add_behind(const std::string& row, Direction direction) {
  const auto behind = [=](std::size_t piece_bytes) {
    return VirtualCopies(1).longest_behind_direct(direction, kBytes, kSmallBytes, kSmallCopies,
                                                  piece_bytes);
  };
  add_ns("copy_behind_gigabyte/berth/" + row,
         [=] { return behind(CopierOptions{}.direct_piece_bytes); });
  add_ns("copy_behind_gigabyte/driver/" + row, [=] { return behind(kBytes); });
}

void add_scattered(const std::string& row, CopyDirection direction) {
  const auto measure = [=](std::uint64_t (ScatteredCopies::*how)()) {
    return (ScatteredCopies(direction, kScatteredBytes, kScatteredCount).*how)();
  };
  add_ns("copy_scattered/berth/" + row, [=] { return measure(&ScatteredCopies::as_batch); });
  add_ns("copy_scattered/one_by_one/" + row, [=] { return measure(&ScatteredCopies::one_by_one); });
}

void add_measurements() {
  add_pageable("copy_pageable_in", Direction::to_device);
  add_pageable("copy_pageable_out", Direction::to_host);
  add_behind("in", Direction::to_device);
  add_behind("out", Direction::to_host);
  add_scattered("in", CopyDirection::to_device);
  add_scattered("out", CopyDirection::to_host);
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  return berth::bench::run_simulated(argc, argv, "copies", berth::bench::add_measurements);
}
