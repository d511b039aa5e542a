// SPDX-License-Identifier: Apache-2.0
// campaign_batch_prices: copies of pinned memory to the device, as one call for all of them and as
// a call for each, by the size of a copy, on an idle device and while a kernel runs.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"

#include "probes/background.hpp"
#include "probes/kernels.hpp"
#include "probes/machine.hpp"
#include "probes/rows.hpp"

namespace {

using namespace berth;
using namespace berth::campaign;

constexpr std::size_t kCopies = 64;
constexpr std::size_t kTurns = 100;

struct Ranges {
  std::vector<CUdeviceptr> to;
  std::vector<CUdeviceptr> from;
  std::vector<std::size_t> bytes;
};

/// Every other piece on both sides, so that copies are not adjacent.
Ranges scattered(CUdeviceptr to, void* from, std::size_t bytes) {
  Ranges ranges;
  for (std::size_t index = 0; index < kCopies; ++index) {
    ranges.to.push_back(to + 2 * index * bytes);
    ranges.from.push_back(reinterpret_cast<CUdeviceptr>(from) + 2 * index * bytes);
    ranges.bytes.push_back(bytes);
  }
  return ranges;
}

void copy_as_one(const Driver& driver, Ranges& ranges, CUstream stream) {
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  std::size_t index = 0;
  driver.memcpy_batch_async(ranges.to.data(), ranges.from.data(), ranges.bytes.data(), kCopies,
                            &attributes, &index, std::size_t{1}, stream);
}

void copy_each(const Driver& driver, const Ranges& ranges, CUstream stream) {
  for (std::size_t index = 0; index < kCopies; ++index)
    driver.memcpy_async(ranges.to[index], ranges.from[index], ranges.bytes[index], stream);
}

/// The duration of the calls, and the time until everything is copied.
template <class Copy>
void add(const Driver& driver, Background& background, const Place& place, const Time& time,
         CUstream stream, std::size_t bytes, const Copy& copy) {
  Series calls;
  std::vector<std::uint64_t> whole;
  repeat(
      kTurns, time,
      [&] {
        whole.push_back(nanoseconds_of([&] {
          background.time(calls, copy);
          driver.stream_synchronize(stream);
        }));
      },
      [&] {
        calls.clear();
        whole.clear();
      });
  Json values = calls.to_json();
  const Json done = spread(whole);
  values["ns_p50_until_copied"] = done["ns_p50"];
  values["gigabytes_per_second"] =
      static_cast<double>(kCopies * bytes) / done["ns_p50"].get<double>();
  add_row_at("batch", place, values);
}

void measure(const Machine& machine) {
  const Driver& driver = machine.driver();
  const Kernels kernels(machine);
  const Time all;
  constexpr std::size_t kBytesMax = 1_MiB;
  constexpr double kShare = 1.0 / 20;
  CUstream stream = nullptr;
  CUdeviceptr to = 0;
  void* from = nullptr;
  driver.stream_create_with_priority(&stream, unsigned{CU_STREAM_NON_BLOCKING}, 0);
  driver.mem_alloc(&to, 2 * kCopies * kBytesMax);
  driver.mem_host_alloc(&from, 2 * kCopies * kBytesMax, 0U);
  for (const bool is_busy : {false, true}) {
    Background background(machine, kernels, is_busy);
    for (std::size_t bytes = 4_KiB; bytes <= kBytesMax; bytes *= 4) {
      Ranges ranges = scattered(to, from, bytes);
      const auto place = [&](const char* way) -> Place {
        return {{"size", fmt::format("{} copies of {} KiB", kCopies, bytes / 1_KiB)},
                {"way", way},
                {"device", background.name()}};
      };
      add(driver, background, place("a call each"), all.share(kShare), stream, bytes,
          [&] { copy_each(driver, ranges, stream); });
      if (!driver.has(DriverCall::memcpy_batch_async)) continue;
      add(driver, background, place("one call"), all.share(kShare), stream, bytes,
          [&] { copy_as_one(driver, ranges, stream); });
    }
  }
  driver.mem_free_host(from);
  driver.mem_free(to);
  driver.stream_destroy(stream);
}

}  // namespace

int main() {
  return run_on_machine(measure);
}
