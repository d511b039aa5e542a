// SPDX-License-Identifier: Apache-2.0
// campaign_prices: what the driver's calls cost that berth makes, each on an idle device and while a kernel
// runs.
#include <algorithm>
#include <array>
#include <cstdlib>
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

constexpr std::size_t kCalls = 300;  ///< of each kind
constexpr std::size_t kBytesMax = 32_GiB;

class Prices {
 public:
  Prices(const Machine& machine, const Kernels& kernels, bool is_busy)
      : driver_(machine.driver()),
        background_(machine, kernels, is_busy),
        properties_(machine.physical_memory()),
        access_(machine.access()) {}

  /// Physical memory: `count` handles of `bytes` each, mapped side by side.
  void measure_mapping(std::size_t bytes, std::size_t count, const Time& time) {
    Durations create;
    Durations map;
    Durations unmap;
    Durations release;
    Durations reserve;
    Durations free;
    Durations set_access;
    const std::size_t whole = bytes * count;
    while (goes_on(create, kCalls, time)) {
      background_.keep_busy();
      CUdeviceptr address = 0;
      const CUdeviceptr anywhere = 0;
      reserve.push_back(nanoseconds_of(
          [&] { driver_.mem_address_reserve(&address, whole, std::size_t{0}, anywhere, 0ULL); }));
      std::vector<CUmemGenericAllocationHandle> handles(count);
      for (auto& handle : handles)
        create.push_back(
            nanoseconds_of([&] { driver_.mem_create(&handle, bytes, &properties_, 0ULL); }));
      for (std::size_t index = 0; index < count; ++index) {
        map.push_back(nanoseconds_of([&] {
          driver_.mem_map(address + index * bytes, bytes, std::size_t{0}, handles[index], 0ULL);
        }));
      }
      set_access.push_back(nanoseconds_of(
          [&] { driver_.mem_set_access(address, whole, &access_, std::size_t{1}); }));
      for (std::size_t index = 0; index < count; ++index)
        unmap.push_back(nanoseconds_of([&] { driver_.mem_unmap(address + index * bytes, bytes); }));
      for (const auto handle : handles)
        release.push_back(nanoseconds_of([&] { driver_.mem_release(handle); }));
      free.push_back(nanoseconds_of([&] { driver_.mem_address_free(address, whole); }));
    }
    const std::string row = background_.row(fmt::format("{} x {} MiB", count, bytes / 1_MiB));
    add_row("create", row, spread(create));
    add_row("map", row, spread(map));
    add_row("set_access", row, spread(set_access));
    add_row("unmap", row, spread(unmap));
    add_row("release", row, spread(release));
    add_row("reserve", row, spread(reserve));
    add_row("address_free", row, spread(free));
  }

  void measure_streams(const Time& time) {
    CUstream stream = nullptr;
    CUstream other = nullptr;
    CUevent event = nullptr;
    driver_.stream_create_with_priority(&stream, unsigned{CU_STREAM_NON_BLOCKING}, 0);
    driver_.stream_create_with_priority(&other, unsigned{CU_STREAM_NON_BLOCKING}, 0);
    driver_.event_create(&event, unsigned{CU_EVENT_DISABLE_TIMING});
    add("event_record", time, [&] { driver_.event_record(event, stream); });
    add("event_query", time, [&] { driver_.try_event_query(event); });
    add("stream_query", time, [&] { driver_.try_stream_query(stream); });
    add("stream_wait_event", time, [&] { driver_.stream_wait_event(other, event, 0U); });
    driver_.stream_synchronize(stream);
    driver_.stream_synchronize(other);
    driver_.event_destroy(event);
    driver_.stream_destroy(stream);
    driver_.stream_destroy(other);
  }

  void measure_allocation(std::size_t bytes, const Time& time) {
    Durations allocate;
    Durations free;
    while (goes_on(allocate, kCalls, time)) {
      background_.keep_busy();
      CUdeviceptr data = 0;
      allocate.push_back(nanoseconds_of([&] { driver_.mem_alloc(&data, bytes); }));
      free.push_back(nanoseconds_of([&] { driver_.mem_free(data); }));
    }
    const std::string row = background_.row(fmt::format("{} MiB", bytes / 1_MiB));
    add_row("mem_alloc", row, spread(allocate));
    add_row("mem_free", row, spread(free));
  }

  void measure_registration(std::size_t bytes, const Time& time) {
    Durations enter;
    Durations leave;
    void* const data = std::aligned_alloc(2_MiB, bytes);
    std::fill_n(static_cast<char*>(data), bytes, 'x');  // pages are there then
    while (goes_on(enter, kCalls, time)) {
      background_.keep_busy();
      enter.push_back(nanoseconds_of([&] { driver_.mem_host_register(data, bytes, 0U); }));
      leave.push_back(nanoseconds_of([&] { driver_.mem_host_unregister(data); }));
    }
    std::free(data);
    const std::string row = background_.row(fmt::format("{} MiB", bytes / 1_MiB));
    add_row("host_register", row, spread(enter));
    add_row("host_unregister", row, spread(leave));
  }

 private:
  using Durations = std::vector<std::uint64_t>;

  template <class Call>
  void add(std::string_view figure, const Time& time, const Call& call) {
    Durations durations;
    while (goes_on(durations, kCalls, time)) {
      background_.keep_busy();
      durations.push_back(nanoseconds_of(call));
    }
    add_row(figure, background_.row("one"), spread(durations));
  }

  const Driver& driver_;
  Background background_;
  const CUmemAllocationProp properties_;
  const CUmemAccessDesc access_;
};

void measure(const Machine& machine) {
  const Time all;
  const Kernels kernels(machine);
  // All handles together: others use the device as well.
  const std::size_t bytes_max = std::min(machine.bytes_free() / 2, kBytesMax);
  constexpr std::array kBytes = {2_MiB, 8_MiB, 32_MiB, 128_MiB, 512_MiB};
  constexpr std::array<std::size_t, 3> kCounts = {1, 8, 64};
  constexpr double kRows = 2 * (kBytes.size() * kCounts.size() + 12);
  for (const bool is_busy : {false, true}) {
    Prices prices(machine, kernels, is_busy);
    prices.measure_streams(all.share(4 / kRows));
    for (const std::size_t bytes : {2_MiB, 64_MiB, 512_MiB}) {
      if (bytes <= bytes_max) prices.measure_allocation(bytes, all.share(1 / kRows));
    }
    for (const std::size_t bytes : {2_MiB, 16_MiB, 128_MiB})
      prices.measure_registration(bytes, all.share(1 / kRows));
    for (const std::size_t count : kCounts) {
      for (const std::size_t bytes : kBytes) {
        if (bytes * count <= bytes_max) prices.measure_mapping(bytes, count, all.share(1 / kRows));
      }
    }
  }
}

}  // namespace

int main() {
  return run_on_machine(measure);
}
