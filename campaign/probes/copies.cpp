// SPDX-License-Identifier: Apache-2.0
// campaign_copies: how fast berth copies between host and device, by kind of host memory, direction and size,
// beside the driver's own call; pageable memory by the number of threads; and how long a small copy takes while
// a large one is under way.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/runtime.hpp"

#include "probes/machine.hpp"
#include "probes/rows.hpp"

namespace {

using namespace berth;
using namespace berth::campaign;

constexpr std::size_t kTurns = 15;
constexpr std::size_t kBytesMost = 1_GiB;

/// Less where the device has less, or the time is short: some hundred copies are of this size.
std::size_t largest_copy(const Machine& machine, const Time& all) {
  const auto seconds =
      static_cast<std::size_t>(std::chrono::ceil<std::chrono::seconds>(all.left()).count());
  return std::min(
      {kBytesMost, machine.bytes_free() / 4, std::max<std::size_t>(seconds, 1) * 64_MiB});
}

/// Host memory of a kind, all of whose pages are there.
class HostBuffer {
 public:
  HostBuffer(const Machine& machine, bool is_pinned, std::size_t bytes)
      : driver_(machine.driver()), is_pinned_(is_pinned) {
    if (is_pinned) {
      driver_.mem_host_alloc(&data_, bytes, 0U);
    } else {
      data_ = std::aligned_alloc(4_KiB, bytes);
    }
    std::fill_n(static_cast<unsigned char*>(data_), bytes, static_cast<unsigned char>(0x5a));
  }
  ~HostBuffer() {
    if (is_pinned_) {
      driver_.try_mem_free_host(data_);
    } else {
      std::free(data_);
    }
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  [[nodiscard]] void* data() const { return data_; }

 private:
  const Driver& driver_;
  const bool is_pinned_;
  void* data_ = nullptr;
};

/// The median rate of `copy`, which returns once all is copied.
double rate_of(const Time& time, std::size_t bytes, const std::function<void()>& copy) {
  copy();
  std::vector<std::uint64_t> durations;
  while (goes_on(durations, kTurns, time)) durations.push_back(nanoseconds_of(copy));
  return static_cast<double>(bytes) / spread(std::move(durations))["ns_p50"].get<double>();
}

struct Direction {
  const char* name;
  bool is_in;
};
constexpr Direction kDirections[] = {{"to the device", true}, {"from the device", false}};

class Copies {
 public:
  Copies(const Machine& machine, Runtime& runtime, std::size_t bytes_max)
      : machine_(machine),
        runtime_(runtime),
        stream_(runtime.create_stream(Device::cuda(0))),
        device_(runtime.memory(Device::cuda(0)).allocate(bytes_max, stream_)) {}

  [[nodiscard]] double rate(const Time& time, Direction direction, void* host, std::size_t bytes) {
    return rate_of(time, bytes, [&] {
      void* const to = direction.is_in ? device_.data() : host;
      const void* const from = direction.is_in ? host : device_.data();
      runtime_.copier().copy(to, from, bytes, stream_);
    });
  }
  [[nodiscard]] double raw_rate(const Time& time, Direction direction, void* host,
                                std::size_t bytes) {
    return rate_of(time, bytes, [&] {
      void* const to = direction.is_in ? device_.data() : host;
      const void* const from = direction.is_in ? host : device_.data();
      machine_.driver().memcpy_async(reinterpret_cast<CUdeviceptr>(to),
                                     reinterpret_cast<CUdeviceptr>(from), bytes,
                                     stream_.ref().native());
      machine_.driver().stream_synchronize(stream_.ref().native());
    });
  }
  [[nodiscard]] void* data() const { return device_.data(); }
  [[nodiscard]] const Stream& stream() const { return stream_; }

 private:
  const Machine& machine_;
  Runtime& runtime_;
  const Stream stream_;
  const Allocation device_;
};

void measure_rates(const Machine& machine, const Time& all, std::size_t bytes_max) {
  Runtime runtime;
  Copies copies(machine, runtime, bytes_max);
  for (const bool is_pinned : {true, false}) {
    const HostBuffer host(machine, is_pinned, bytes_max);
    for (const Direction direction : kDirections) {
      for (std::size_t bytes = 4_KiB; bytes <= bytes_max; bytes *= 16) {
        add_row(
            "copies",
            fmt::format("{}, {}, {}", direction.name, is_pinned ? "pinned" : "pageable",
                        format_bytes(bytes)),
            {{"gigabytes_per_second", copies.rate(all.share(0.01), direction, host.data(), bytes)},
             {"of_the_driver_alone",
              copies.raw_rate(all.share(0.01), direction, host.data(), bytes)}});
      }
    }
  }
}

void measure_threads(const Machine& machine, const Time& all, std::size_t bytes_max) {
  const std::size_t bytes = std::min(bytes_max, 256_MiB);
  const HostBuffer host(machine, false, bytes);
  for (const std::size_t threads : {1, 2, 4, 6, 8, 16}) {
    RuntimeOptions options;
    options.copier.workers = threads;
    Runtime runtime(options);
    Copies copies(machine, runtime, bytes);
    for (const Direction direction : kDirections) {
      add_row(
          "copy_threads", fmt::format("{}, {} threads", direction.name, threads),
          {{"gigabytes_per_second", copies.rate(all.share(0.03), direction, host.data(), bytes)}});
    }
  }
}

/// Copies of 64 KiB on one stream while a large one in the same direction is under way on another.
void measure_fairness(const Machine& machine, const Time& all, std::size_t bytes_max) {
  constexpr std::size_t kSmall = 64_KiB;
  Runtime runtime;
  Copies large(machine, runtime, bytes_max);
  Copies small(machine, runtime, kSmall);
  for (const bool is_pinned : {true, false}) {
    const HostBuffer host(machine, is_pinned, bytes_max);
    const HostBuffer small_host(machine, true, kSmall);
    std::vector<std::uint64_t> durations;
    const Time time = all.share(0.05);
    while (goes_on(durations, kTurns, time)) {
      const Transfer whole =
          runtime.copier().start(large.data(), host.data(), bytes_max, large.stream());
      for (int turn = 0; turn == 0 || (turn < 20 && !whole.is_done()); ++turn) {
        durations.push_back(nanoseconds_of([&] {
          runtime.copier().copy(small.data(), small_host.data(), kSmall, small.stream());
        }));
      }
      whole.wait();
    }
    add_row("copy_behind",
            fmt::format("64 KiB to the device behind {} of {} memory", format_bytes(bytes_max),
                        is_pinned ? "pinned" : "pageable"),
            spread(std::move(durations)));
  }
}

void measure(const Machine& machine) {
  const Time all;
  const std::size_t bytes_max = largest_copy(machine, all);
  measure_rates(machine, all, bytes_max);
  measure_threads(machine, all, bytes_max);
  measure_fairness(machine, all, bytes_max);
}

}  // namespace

int main() {
  return run_on_machine(measure);
}
