// SPDX-License-Identifier: Apache-2.0
// campaign_batch_prices: copies of pinned memory to the device, as one call for all of them and as a call for
// each, by the size of a copy.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"

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

/// Every other piece on both sides, so that no two copies are one.
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

/// What the calls take, and what it takes until all is copied.
template <class Copy>
void add(const Driver& driver, std::string_view row, const Time& time, CUstream stream,
         std::size_t bytes, const Copy& copy) {
  std::vector<std::uint64_t> calls;
  std::vector<std::uint64_t> whole;
  while (goes_on(whole, kTurns, time)) {
    whole.push_back(nanoseconds_of([&] {
      calls.push_back(nanoseconds_of(copy));
      driver.stream_synchronize(stream);
    }));
  }
  Json values = spread(calls);
  const Json done = spread(whole);
  values["ns_p50_until_copied"] = done["ns_p50"];
  values["gigabytes_per_second"] =
      static_cast<double>(kCopies * bytes) / done["ns_p50"].get<double>();
  add_row("batch", row, values);
}

void measure(const Machine& machine) {
  const Driver& driver = machine.driver();
  const Time all;
  constexpr std::size_t kBytesMax = 1_MiB;
  CUstream stream = nullptr;
  CUdeviceptr to = 0;
  void* from = nullptr;
  driver.stream_create_with_priority(&stream, unsigned{CU_STREAM_NON_BLOCKING}, 0);
  driver.mem_alloc(&to, 2 * kCopies * kBytesMax);
  driver.mem_host_alloc(&from, 2 * kCopies * kBytesMax, 0U);
  for (std::size_t bytes = 4_KiB; bytes <= kBytesMax; bytes *= 4) {
    Ranges ranges = scattered(to, from, bytes);
    const std::string row = fmt::format("{} copies of {} KiB", kCopies, bytes / 1_KiB);
    add(driver, row + ", a call each", all.share(0.1), stream, bytes,
        [&] { copy_each(driver, ranges, stream); });
    if (!driver.has(DriverCall::memcpy_batch_async)) continue;
    add(driver, row + ", one call", all.share(0.1), stream, bytes,
        [&] { copy_as_one(driver, ranges, stream); });
  }
  driver.mem_free_host(from);
  driver.mem_free(to);
  driver.stream_destroy(stream);
}

}  // namespace

int main() {
  return run_on_machine(measure);
}
