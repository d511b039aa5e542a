// SPDX-License-Identifier: Apache-2.0
// What does berth add to a small copy of pageable memory? Nanoseconds of the caller's thread for
// 4 KiB, beside the driver calls that such a copy needs:
//   copy_small_in   copy_async() to the device, beside cuMemcpyAsync; the wait for the copy is not
//                   timed
//   copy_small_out  copy() to the host, beside cuMemcpyAsync and cuStreamSynchronize
//   copy_small_p999 what one of a thousand pairs of both exceeds, on 16 threads with streams of
//                   their own
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "berth/bytes.hpp"

#include "support/benchmarks.hpp"

namespace berth::bench {
namespace {

constexpr std::size_t kBytes = 4_KiB;
constexpr std::size_t kThreads = 16;
constexpr int kPairsOfThread = 500;

/// Copies between pageable memory and the device, by berth and by the driver alone.
class SmallCopies {
 public:
  SmallCopies(Session& session, StreamRef stream)
      : copier_(session.runtime().copier()),
        driver_(session.driver()),
        stream_(stream),
        host_(kBytes),
        device_(session.runtime().memory(session.device()).allocate(kBytes, stream)) {}

  void in() { copier_.copy_async(device_.data(), host_.data(), kBytes, stream_); }
  void out() { copier_.copy(host_.data(), device_.data(), kBytes, stream_); }
  void in_by_driver() {
    driver_.memcpy_async(reinterpret_cast<CUdeviceptr>(device_.data()),
                         reinterpret_cast<CUdeviceptr>(host_.data()), kBytes, stream_.native());
  }
  void out_by_driver() {
    driver_.memcpy_async(reinterpret_cast<CUdeviceptr>(host_.data()),
                         reinterpret_cast<CUdeviceptr>(device_.data()), kBytes, stream_.native());
    driver_.stream_synchronize(stream_.native());
  }
  void sync() { stream_.sync(); }

 private:
  Copier& copier_;
  const Driver& driver_;
  const StreamRef stream_;
  std::vector<std::byte> host_;
  const Allocation device_;
};

using Step = void (SmallCopies::*)();

void time_steps(benchmark::State& state, Session& session, Step step) {
  constexpr int kStepsInFlight = 64;  // fewer than a driver queues before it blocks the caller
  session.enter_thread();
  SmallCopies copies(session, session.stream());
  for (auto _ : state) {
    for (int count = 0; count < kStepsInFlight; ++count) (copies.*step)();
    state.PauseTiming();
    copies.sync();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * kStepsInFlight);
}

void time_slowest(benchmark::State& state, Session& session, Step in, Step out) {
  using Clock = std::chrono::steady_clock;
  const std::vector<StreamRef> streams = session.streams(kThreads);
  for (auto _ : state) {
    std::vector<std::vector<double>> of_thread(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        session.enter_thread();
        SmallCopies copies(session, streams[thread]);
        for (int pair = 0; pair < kPairsOfThread; ++pair) {
          const Clock::time_point begin = Clock::now();
          (copies.*in)();
          (copies.*out)();
          const std::chrono::duration<double, std::nano> took = Clock::now() - begin;
          of_thread[thread].push_back(took.count());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<double> all;
    for (const auto& times : of_thread) all.insert(all.end(), times.begin(), times.end());
    const auto place =
        all.begin() + static_cast<std::ptrdiff_t>(all.size() - all.size() / 1000 - 1);
    std::nth_element(all.begin(), place, all.end());
    state.counters["ns"] = *place;
  }
}

}  // namespace

void add_benchmarks(Session& session) {
  const auto add_steps = [&session](const char* figure, const char* peer, Step step) {
    add(session, figure, peer, "",
        [&session, step](benchmark::State& state) { time_steps(state, session, step); });
  };
  add_steps("copy_small_in", "berth", &SmallCopies::in);
  add_steps("copy_small_in", "driver", &SmallCopies::in_by_driver);
  add_steps("copy_small_out", "berth", &SmallCopies::out);
  add_steps("copy_small_out", "driver", &SmallCopies::out_by_driver);
  add(session, "copy_small_p999", "berth", "", [&session](benchmark::State& state) {
    time_slowest(state, session, &SmallCopies::in, &SmallCopies::out);
  });
  add(session, "copy_small_p999", "driver", "", [&session](benchmark::State& state) {
    time_slowest(state, session, &SmallCopies::in_by_driver, &SmallCopies::out_by_driver);
  });
}

}  // namespace berth::bench
