// SPDX-License-Identifier: Apache-2.0
// What does one request cost other threads, and the driver, if the heap has many holes and streams?
// On simulated devices of its own.
//   held_up_by_failure  the longest that an allocation of 4 KiB takes on one thread while a request
//                       fails on another, which has looked at everything: wall time, the median of
//                       five requests. Rows: holes
//   queries_of_growth   questions to the driver about streams and events in one request that finds
//                       the free memory of 1,000 streams busy, and gets new memory
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include "berth/bytes.hpp"

#include "peers/allocators.hpp"
#include "support/simulated_main.hpp"
#include "support/simulated_session.hpp"
#include "workloads/busy_figures.hpp"
#include "workloads/busy_machine.hpp"
#include "workloads/holes.hpp"

namespace berth::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kStreams = 1000;

/// The size of the device, part of which is in use.
constexpr std::size_t kRefusedBytes = 80_GiB;

template <class Allocator>
bool fails(Allocator& allocator, StreamRef stream) {
  try {
    allocator.deallocate(allocator.allocate(kRefusedBytes, stream), kRefusedBytes, stream);
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

template <class Allocator>
double held_up_ns(const HolesPlan& plan) {
  SimulatedSession machine;
  Session& session = machine.session();
  const std::vector<StreamRef> streams = session.streams(2);
  Allocator allocator(session);
  const Holes heap(allocator, plan, streams[0]);
  std::array<double, 5> longest_ns{};
  for (double& ns : longest_ns) {
    std::atomic<bool> is_ready = false;
    std::atomic<bool> is_over = false;
    std::thread other([&] {
      session.enter_thread();
      Clock::duration longest{};
      for (bool is_last = false; !is_last;) {
        is_last = is_over;
        const auto begin = Clock::now();
        void* const data = allocator.allocate(4_KiB, streams[1]);
        longest = std::max(longest, Clock::now() - begin);
        allocator.deallocate(data, 4_KiB, streams[1]);
        // The first block comes from the driver.
        if (!is_ready.exchange(true)) longest = {};
      }
      ns = std::chrono::duration<double, std::nano>(longest).count();
    });
    while (!is_ready) std::this_thread::yield();
    const bool has_failed = fails(allocator, streams[0]);
    is_over = true;
    other.join();
    if (!has_failed) throw std::runtime_error("a request was served that should fail");
  }
  std::ranges::sort(longest_ns);
  return longest_ns[longest_ns.size() / 2];
}

template <class Allocator>
double queries_of_growth() {
  SimulatedSession machine(80_GiB, sim::Progress::timed);
  Session& session = machine.session();
  Allocator allocator(session);
  BusyMachine streams(machine, kStreams, 1'000'000'000);
  for (std::uint32_t stream = 0; stream < kStreams; ++stream) {
    void* const data = allocator.allocate(2_MiB, streams.stream(stream));
    streams.launch(stream, data, 2_MiB);
    allocator.deallocate(data, 2_MiB, streams.stream(stream));
  }
  const DriverCalls before = session.driver().calls();
  void* const data = allocator.allocate(64_MiB, streams.stream(0));
  const DriverCalls calls = session.driver().calls() - before;
  allocator.deallocate(data, 64_MiB, streams.stream(0));
  return double(calls[std::size_t(DriverCall::stream_query)] +
                calls[std::size_t(DriverCall::event_query)]);
}

template <class Measure>
void add_value(const std::string& name, const char* unit, Measure measure) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) {
                                 try {
                                   for (auto _ : state) state.counters[unit] = measure();
                                 } catch (const std::exception& error) {
                                   state.SkipWithError(error.what());
                                 }
                               })
      ->Iterations(1)
      ->Repetitions(1);
}

void add_measurements() {
  for (const std::size_t holes : {10'000, 200'000}) {
    const auto plan = std::make_shared<const HolesPlan>(holes);
    for_each_allocator([&]<class Allocator>(std::type_identity<Allocator>) {
      // RMM's pool walks along all its holes for each free.
      if constexpr (Allocator::kSplits && !std::is_same_v<Allocator, RmmPool>)
        add_value(
            std::string("held_up_by_failure/") + Allocator::kName + "/" + std::to_string(holes),
            "ns", [plan] { return held_up_ns<Allocator>(*plan); });
    });
  }
  add_value(std::string("queries_of_growth/") + BerthAllocator::kName, "calls",
            queries_of_growth<BerthAllocator>);
}

}  // namespace
}  // namespace berth::bench

int main(int argc, char** argv) {
  return berth::bench::run_simulated(argc, argv, "crowded", berth::bench::add_measurements);
}
