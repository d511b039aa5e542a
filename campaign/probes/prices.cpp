// SPDX-License-Identifier: Apache-2.0
// campaign_prices: the cost of the driver calls that berth makes, each on an idle device and while
// a kernel runs.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
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

constexpr std::size_t kTurns = 300;
constexpr std::size_t kBytesMax = 32_GiB;
constexpr std::array kMapped = {2_MiB, 8_MiB, 32_MiB, 128_MiB, 512_MiB};
constexpr std::array<std::size_t, 4> kHandles = {1, 4, 16, 64};
constexpr std::array kAllocated = {2_MiB, 64_MiB, 512_MiB};
constexpr std::array kRegistered = {2_MiB, 16_MiB, 128_MiB};

class Prices {
 public:
  Prices(const Machine& machine, const Kernels& kernels, bool is_busy)
      : driver_(machine.driver()),
        background_(machine, kernels, is_busy),
        properties_(machine.physical_memory()),
        access_(machine.access()) {}

  /// Physical memory: `count` handles of `bytes` each, mapped at adjacent addresses.
  void measure_mapping(std::size_t bytes, std::size_t count, const Time& time) {
    Series reserve, create, map, set_access, unmap, release, free;
    const std::size_t whole = bytes * count;
    const CUdeviceptr anywhere = 0;
    CUdeviceptr address = 0;
    std::vector<CUmemGenericAllocationHandle> handles(count);
    const auto turn = [&] {
      background_.time(reserve, [&] {
        driver_.mem_address_reserve(&address, whole, std::size_t{0}, anywhere, 0ULL);
      });
      for (auto& handle : handles)
        background_.time(create, [&] { driver_.mem_create(&handle, bytes, &properties_, 0ULL); });
      for (std::size_t index = 0; index < count; ++index) {
        background_.time(map, [&] {
          driver_.mem_map(address + index * bytes, bytes, std::size_t{0}, handles[index], 0ULL);
        });
      }
      background_.time(set_access,
                       [&] { driver_.mem_set_access(address, whole, &access_, std::size_t{1}); });
      for (std::size_t index = 0; index < count; ++index)
        background_.time(unmap, [&] { driver_.mem_unmap(address + index * bytes, bytes); });
      for (const auto handle : handles)
        background_.time(release, [&] { driver_.mem_release(handle); });
      background_.time(free, [&] { driver_.mem_address_free(address, whole); });
    };
    repeat(kTurns, time, turn, [&] {
      for (Series* const each : {&reserve, &create, &map, &set_access, &unmap, &release, &free})
        *each = {};
    });
    const Place place = {{"a handle", size_text(bytes)},
                         {"handles", fmt::format("{} handle{}", count, count == 1 ? "" : "s")},
                         {"device", background_.name()}};
    add_row_at("reserve", place, reserve.to_json());
    add_row_at("create", place, create.to_json());
    add_row_at("map", place, map.to_json());
    add_row_at("set_access", place, set_access.to_json());
    add_row_at("unmap", place, unmap.to_json());
    add_row_at("release", place, release.to_json());
    add_row_at("address_free", place, free.to_json());
  }

  /// `each` is for one kind of call.
  void measure_streams(const std::function<Time()>& each) {
    CUstream stream = nullptr;
    CUstream other = nullptr;
    CUevent event = nullptr;
    driver_.stream_create_with_priority(&stream, unsigned{CU_STREAM_NON_BLOCKING}, 0);
    driver_.stream_create_with_priority(&other, unsigned{CU_STREAM_NON_BLOCKING}, 0);
    driver_.event_create(&event, unsigned{CU_EVENT_DISABLE_TIMING});
    add("cuEventRecord", each(), [&] { driver_.event_record(event, stream); });
    add("cuEventQuery", each(), [&] { driver_.try_event_query(event); });
    add("cuStreamQuery", each(), [&] { driver_.try_stream_query(stream); });
    add("cuStreamWaitEvent", each(), [&] { driver_.stream_wait_event(other, event, 0U); });
    driver_.stream_synchronize(stream);
    driver_.stream_synchronize(other);
    driver_.event_destroy(event);
    driver_.stream_destroy(stream);
    driver_.stream_destroy(other);
  }

  void measure_allocation(std::size_t bytes, const Time& time) {
    CUdeviceptr data = 0;
    add_pair(
        {"mem_alloc", "mem_free"}, bytes, time, [&] { driver_.mem_alloc(&data, bytes); },
        [&] { driver_.mem_free(data); });
  }

  void measure_registration(std::size_t bytes, const Time& time) {
    const std::unique_ptr<void, decltype(&std::free)> data(std::aligned_alloc(2_MiB, bytes),
                                                           &std::free);
    std::fill_n(static_cast<char*>(data.get()), bytes, 'x');  // makes the pages resident
    add_pair(
        {"host_register", "host_unregister"}, bytes, time,
        [&] { driver_.mem_host_register(data.get(), bytes, 0U); },
        [&] { driver_.mem_host_unregister(data.get()); });
  }

 private:
  template <class Call>
  void add(const std::string& name, const Time& time, const Call& call) {
    Series series;
    repeat(
        kTurns, time, [&] { background_.time(series, call); }, [&] { series.clear(); });
    add_row_at("calls", {{"call", name}, {"device", background_.name()}}, series.to_json());
  }

  template <class First, class Second>
  void add_pair(const std::array<const char*, 2>& figures, std::size_t bytes, const Time& time,
                const First& first, const Second& second) {
    std::array<Series, 2> series;
    repeat(
        kTurns, time,
        [&] {
          background_.time(series[0], first);
          background_.time(series[1], second);
        },
        [&] { series = {}; });
    const Place place = {{"size", size_text(bytes)}, {"device", background_.name()}};
    add_row_at(figures[0], place, series[0].to_json());
    add_row_at(figures[1], place, series[1].to_json());
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
  constexpr double kShares =
      2 * (kMapped.size() * kHandles.size() + kAllocated.size() + kRegistered.size() + 4);
  for (const bool is_busy : {false, true}) {
    Prices prices(machine, kernels, is_busy);
    attempt("calls", "streams and events",
            [&] { prices.measure_streams([&] { return all.share(1 / kShares); }); });
    for (const std::size_t bytes : kAllocated) {
      if (bytes > bytes_max) continue;
      attempt("mem_alloc", size_text(bytes),
              [&] { prices.measure_allocation(bytes, all.share(1 / kShares)); });
    }
    for (const std::size_t bytes : kRegistered)
      attempt("host_register", size_text(bytes),
              [&] { prices.measure_registration(bytes, all.share(1 / kShares)); });
    for (const std::size_t bytes : kMapped) {
      for (const std::size_t count : kHandles) {
        if (bytes * count > bytes_max) continue;
        attempt("map", fmt::format("{} x {}", count, size_text(bytes)),
                [&] { prices.measure_mapping(bytes, count, all.share(1 / kShares)); });
      }
    }
  }
}

}  // namespace

int main() {
  return run_on_machine(measure);
}
