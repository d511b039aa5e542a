// SPDX-License-Identifier: Apache-2.0
// Nothing that crosses a link waits behind a gigabyte, and copies overlap with work. In virtual
// time, which is exact.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "copy/copy_fixture.hpp"
#include "sim/work/cost_model.hpp"

namespace fairness_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kSmall = 64_KiB;
constexpr std::uint64_t kBarNs = 250'000;
constexpr int kSmallCopies = 100;

sim::Config timed() {
  sim::Config config;
  config.memory = {4_GiB};
  config.progress = sim::Progress::timed;
  config.checks = false;
  config.poison = false;
  return config;
}

/// How long what is on `stream` takes from now on.
std::uint64_t ns_until_done(const sim::Simulator& simulator, StreamRef stream) {
  const std::uint64_t before = simulator.now_ns();
  stream.sync();
  return simulator.now_ns() - before;
}

struct Pair {
  void copy_in(Copier& copier, std::size_t bytes, StreamRef stream) const {
    copier.start(device, host, bytes, stream);
  }
  void copy_out(Copier& copier, std::size_t bytes, StreamRef stream) const {
    copier.start(host, device, bytes, stream);
  }
  void* device;
  void* host;
};

struct TimedCopies : CopyTest {
  TimedCopies() : CopyTest(timed()) {}
  Pair pair(std::size_t bytes) {
    devices.push_back(
        runtime->memory(Device::cuda()).allocate(bytes, runtime->default_stream(Device::cuda())));
    hosts.push_back(runtime->pinned_memory().allocate(bytes));
    return {devices.back().data(), hosts.back().data()};
  }
  ~TimedCopies() { simulator.run_all(); }

  std::vector<Allocation> devices;
  std::vector<Allocation> hosts;
};

}  // namespace

TEST_CASE("copies within one device are not split into pieces") {
  TimedCopies test;
  const Pair one = test.pair(256_MiB);
  const Pair other = test.pair(256_MiB);
  const Stream stream = test.stream();
  const auto calls_of = [&](void* to, const void* from) {
    const std::uint64_t before = driver_calls(*test.runtime, "cuMemcpyAsync");
    test.copier.start(to, from, 256_MiB, stream).wait();
    return driver_calls(*test.runtime, "cuMemcpyAsync") - before;
  };
  CHECK(calls_of(one.device, other.device) == 1);
  CHECK(calls_of(one.device, one.host) == 32);
  CHECK(calls_of(one.host, other.device) == 32);
}

TEST_CASE("64 KiB behind a gigabyte of pinned memory arrive within 250 us, every time") {
  for (const bool to_device : {true, false}) {
    CAPTURE(to_device);
    TimedCopies test;
    const Pair large = test.pair(1_GiB);
    const Pair small = test.pair(kSmall);
    const Stream bulk = test.stream();
    const Stream urgent = test.stream();
    const auto copy = to_device ? &Pair::copy_in : &Pair::copy_out;
    (large.*copy)(test.copier, 1_GiB, bulk);
    std::uint64_t longest = 0;
    for (int count = 0; count < kSmallCopies; ++count) {
      (small.*copy)(test.copier, kSmall, urgent);
      longest = std::max(longest, ns_until_done(test.simulator, urgent));
      test.simulator.spend(10'007);
    }
    CHECK_FALSE(bulk.ref().is_done());  // it was behind it all the time
    MESSAGE("longest: ", longest, " ns");
    CHECK(longest <= kBarNs);
  }
}

TEST_CASE(
    "a pipeline of copy in, work and copy out takes at most 5 % longer than the longest of them") {
  constexpr std::size_t kBatch = 8_MiB;
  constexpr int kBatches = 128;
  constexpr int kBuffers = 3;
  const std::uint64_t in_ns = sim::transfer_ns(sim::Engine::host_to_device, kBatch);
  const std::uint64_t out_ns = sim::transfer_ns(sim::Engine::device_to_host, kBatch);
  for (const std::uint64_t work_ns : {in_ns / 4, in_ns, 2 * in_ns}) {
    CAPTURE(work_ns);
    TimedCopies test;
    Runtime& runtime = *test.runtime;
    const Stream in = test.stream();
    const Stream work = test.stream();
    const Stream out = test.stream();
    std::vector<Pair> inputs;
    std::vector<Pair> outputs;
    for (int buffer = 0; buffer < kBuffers; ++buffer) {
      inputs.push_back(test.pair(kBatch));
      outputs.push_back(test.pair(kBatch));
    }
    std::vector<EventLease> worked;
    std::vector<EventLease> left;
    const std::uint64_t before = test.simulator.now_ns();
    for (int batch = 0; batch < kBatches; ++batch) {
      const auto buffer = static_cast<std::size_t>(batch % kBuffers);
      const bool is_used = batch >= kBuffers;
      const auto last_use = static_cast<std::size_t>(std::max(batch - kBuffers, 0));
      if (is_used) in.ref().wait(worked[last_use]);
      inputs[buffer].copy_in(test.copier, kBatch, in);
      work.ref().wait(runtime.record(in));
      if (is_used) work.ref().wait(left[last_use]);
      REQUIRE(test.simulator.launch(work.ref().native(), work_ns));
      worked.push_back(runtime.record(work));
      out.ref().wait(worked.back());
      outputs[buffer].copy_out(test.copier, kBatch, out);
      left.push_back(runtime.record(out));
    }
    out.ref().sync();
    const std::uint64_t took = test.simulator.now_ns() - before;
    const std::uint64_t longest = std::max({in_ns, work_ns, out_ns}) * kBatches;
    MESSAGE("took ", took, " ns, the longest alone ", longest, " ns");
    CHECK(static_cast<double>(longest) >= 0.95 * static_cast<double>(took));
  }
}

}  // namespace fairness_test
