// SPDX-License-Identifier: Apache-2.0
// The cost and the order of copies of less than 64 KiB between pageable memory and a device.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "copy/copy_fixture.hpp"
#include "support/captured_graph.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/thinned.hpp"

namespace small_copy_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 4_KiB;

/// A stream, memory on both sides, and the device's context current, as in a program that works on
/// it.
struct SmallCopies : CopyTest {
  explicit SmallCopies(const sim::Config& config = {}, const CopierOptions& options = {})
      : CopyTest(config, options) {
    runtime->devices().set_current(Device::cuda(0));
    in(own);
    out(own);
  }

  void in(StreamRef on, std::size_t bytes = kBytes) {
    copier.copy_async(device.data(), host.data(), bytes, on);
  }
  void out(StreamRef on, std::size_t bytes = kBytes) {
    copier.copy(back.data(), device.data(), bytes, on);
  }
  void out_async(StreamRef on) { copier.copy_async(back.data(), device.data(), kBytes, on); }

  template <class Action>
  std::uint64_t calls(const Action& action) const {
    const std::uint64_t before = driver_calls(*runtime);
    action();
    return driver_calls(*runtime) - before;
  }

  const Stream own = stream();
  Buffer device{*this, Kind::device, 64_KiB};
  Bytes host = pattern(64_KiB, 1);
  Bytes back = Bytes(64_KiB);
};

sim::Config machine(sim::Progress progress, const char* faults = "", int devices = 1) {
  sim::Config config;
  config.devices = devices;
  config.progress = progress;
  config.faults = sim::FaultPlan::parse(faults);
  return config;
}

CUcontext swap_context(CUcontext context) {
  CUcontext before = nullptr;
  REQUIRE(sim::berth_sim_cuCtxGetCurrent(&before) == CUDA_SUCCESS);
  REQUIRE(sim::berth_sim_cuCtxSetCurrent(context) == CUDA_SUCCESS);
  return before;
}

}  // namespace

TEST_CASE("a small copy of pageable memory takes three driver calls" * needs_gates()) {
  SmallCopies test;
  CHECK(test.calls([&] { test.in(test.own); }) == 3);
  CHECK(test.calls([&] { test.out(test.own); }) == 3);
  CHECK(test.calls([&] { test.out_async(test.own); }) == 4);  // the kind of the target is asked
  const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
  CHECK(test.calls([&] { test.in(test.own); }) == 3);
  CHECK(test.calls([&] { test.out(test.own); }) == 3);
}

TEST_CASE("without memory operations a small copy to the host synchronizes the stream") {
  sim::Config denied = machine(sim::Progress::eager);
  denied.memory_operations = {false};
  CopierOptions no_gates;
  no_gates.gates = CopyGates::off;
  const auto check = [](const std::unique_ptr<SmallCopies>& owned) {
    SmallCopies& test = *owned;
    const std::uint64_t waits = driver_calls(*test.runtime, "cuStreamSynchronize");
    CHECK(test.calls([&] { test.out(test.own); }) == 5);
    CHECK(driver_calls(*test.runtime, "cuStreamSynchronize") == waits + 1);
    CHECK(driver_calls(*test.runtime, "cuStreamWriteValue32") == 0);
  };
  check(std::make_unique<SmallCopies>(denied));
  check(std::make_unique<SmallCopies>(machine(sim::Progress::eager), no_gates));
}

TEST_CASE("a small copy to the host waits in the driver only behind pending work") {
  SmallCopies test(machine(sim::Progress::manual));
  const auto waits = [&] { return driver_calls(*test.runtime, "cuStreamSynchronize"); };
  const std::uint64_t before = waits();
  for (int round = 1; round <= 3; ++round) {
    test.device.write(pattern(64_KiB, static_cast<std::uint64_t>(round)));
    test.log.submit(test.own, "earlier");
    test.out(test.own);
    CHECK(waits() == before + static_cast<std::uint64_t>(round));
    const Bytes expected = pattern(64_KiB, static_cast<std::uint64_t>(round));
    CHECK(std::equal(test.back.begin(), test.back.begin() + kBytes, expected.begin()));
  }
}

TEST_CASE("a word that repeatedly comes too late is watched more and more rarely" * needs_gates()) {
  SmallCopies test(machine(sim::Progress::manual));
  const auto words = [&] { return driver_calls(*test.runtime, "cuStreamWriteValue32"); };
  const std::uint64_t before = words();
  constexpr int kCopies = 200;
  for (int copy = 0; copy < kCopies; ++copy) {
    test.log.submit(test.own, "earlier");
    const std::uint64_t calls = test.calls([&] { test.out(test.own); });
    CHECK(calls <= 7);  // with that of the log
  }
  CHECK(words() - before == 7);  // copies 2, 6, 14, 30, 62, 126 and 190; one came before
}

TEST_CASE("a small copy to the host succeeds if its word cannot be written" * needs_gates()) {
  SmallCopies test(machine(sim::Progress::eager, "cuStreamWriteValue32@2=unknown"));
  for (int round = 0; round < 5; ++round) test.out(test.own);
  CHECK(std::equal(test.back.begin(), test.back.begin() + kBytes, test.host.begin()));
  // The copy whose word was rejected, and the next one, which has no word.
  CHECK(driver_calls(*test.runtime, "cuStreamSynchronize") == 2);
  CHECK(driver_calls(*test.runtime, "cuStreamWriteValue32") == 5);
}

TEST_CASE("on the legacy default stream a small copy asks for the context as well" *
          needs_gates()) {
  SmallCopies test;
  const StreamRef legacy = test.runtime->default_stream(Device::cuda(0));
  test.in(legacy);
  CHECK(test.calls([&] { test.in(legacy); }) == 4);
  CHECK(test.calls([&] { test.out(legacy); }) == 4);
  CHECK(std::equal(test.back.begin(), test.back.begin() + kBytes, test.host.begin()));
}

TEST_CASE("the 30,000th small copy makes as many driver calls as the 10th" * needs_gates()) {
  const int copies = static_cast<int>(Thinned(6).part_of(30'000));
  for (const bool in : {true, false}) {
    CAPTURE(in);
    SmallCopies test;
    std::vector<std::uint64_t> calls;
    const std::uint64_t records = driver_calls(*test.runtime, "cuEventRecord");
    for (int copy = 0; copy < copies; ++copy) {
      calls.push_back(test.calls([&] { in ? test.in(test.own, 8) : test.out(test.own, 8); }));
    }
    const std::uint64_t expected = 3;
    CHECK(calls[9] == expected);
    CHECK(calls.back() == expected);
    std::uint64_t all = 0;
    for (const std::uint64_t each : calls) all += each;
    // A block of pinned memory holds thousands of copies, and costs some calls when it is used up.
    CHECK(all <= expected * calls.size() + 200);
    CHECK(driver_calls(*test.runtime, "cuEventRecord") - records <= 16);
    // What is pinned meanwhile is found as quickly as ever.
    CHECK(test.runtime->pinned_memory().counters().bytes_active.current <= 16_MiB);
  }
}

TEST_CASE("small copies behind pending work make as many calls and do not wait") {
  sim::Config config = machine(sim::Progress::manual);
  config.queue_entries = 0;  // a full queue blocks its thread
  SmallCopies test(config);
  test.log.submit(test.own, "earlier");
  std::uint64_t most = 0;
  std::uint64_t all = 0;
  const std::size_t copies = Thinned(5).part_of(10'000);
  for (std::size_t copy = 0; copy < copies; ++copy) {
    const std::uint64_t calls = test.calls([&] { test.in(test.own, 8); });
    most = std::max(most, calls);
    all += calls;
  }
  CHECK_FALSE(test.log.is_done("earlier"));
  CHECK(most <= 40);
  CHECK(all <= 3 * copies + 100);
  test.own.ref().sync();
}

TEST_CASE("memory that the program registers itself is read in stream order from then on") {
  SmallCopies test(machine(sim::Progress::manual));
  Buffer other(test, Kind::device, kBytes);
  const Bytes later = pattern(kBytes, 5);
  other.write(later);
  REQUIRE(sim::berth_sim_cuMemHostRegister(test.host.data(), kBytes, CU_MEMHOSTREGISTER_PORTABLE) ==
          CUDA_SUCCESS);
  test.log.submit(test.own, "earlier");
  REQUIRE(sim::berth_sim_cuMemcpyAsync(address_of(test.host.data()), address_of(other.data()),
                                       kBytes, test.own.ref().native()) == CUDA_SUCCESS);
  test.in(test.own);
  CHECK_FALSE(test.log.is_done("earlier"));
  test.own.ref().sync();
  const Bytes there = test.device.read();
  CHECK(std::equal(later.begin(), later.end(), there.begin()));
  REQUIRE(sim::berth_sim_cuMemHostUnregister(test.host.data()) == CUDA_SUCCESS);
}

TEST_CASE("device memory that was copied before and freed since is refused") {
  SmallCopies test;
  CUdeviceptr address = 0;
  REQUIRE(sim::berth_sim_cuMemAlloc(&address, 4_MiB) == CUDA_SUCCESS);
  auto* const gone = reinterpret_cast<unsigned char*>(address + 2_MiB);
  for (int copy = 0; copy < 2; ++copy)
    test.copier.copy_async(gone, test.host.data(), kBytes, test.own);
  CHECK(test.calls([&] { test.copier.copy_async(gone, test.host.data(), kBytes, test.own); }) == 3);
  test.own.ref().sync();
  REQUIRE(sim::berth_sim_cuMemFree(address) == CUDA_SUCCESS);
  const std::uint64_t copied = test.copier.counters().bytes_copied;
  const auto refused = [&](const auto& copy) {
    CHECK(contains(message_of<InvalidArgument>(copy), "memory of no device"));
  };
  refused([&] { test.copier.copy_async(gone, test.host.data(), kBytes, test.own); });
  refused([&] { test.copier.copy(test.back.data(), gone, kBytes, test.own); });
  refused([&] { test.copier.copy(gone, test.device.data(), kBytes, test.own); });
  CHECK(test.copier.counters().bytes_copied <=
        copied + kBytes);  // the first was found by the driver
  test.in(test.own);
  test.out(test.own);
  CHECK(std::equal(test.back.begin(), test.back.begin() + kBytes, test.host.begin()));
}

TEST_CASE("an address that was copied on one device may be memory of another one later") {
  SmallCopies test(machine(sim::Progress::random, "", 2));
  const Stream streams[] = {test.stream(0), test.stream(1)};
  CUdeviceptr first = 0;
  for (int turn = 0; turn < 4; ++turn) {
    CAPTURE(turn);
    const StreamRef stream = streams[turn % 2];
    test.runtime->devices().set_current(stream.device());
    CUdeviceptr address = 0;
    REQUIRE(sim::berth_sim_cuMemAlloc(&address, 4_MiB) == CUDA_SUCCESS);
    if (turn == 0) first = address;
    CHECK(address == first);
    auto* const data = reinterpret_cast<unsigned char*>(address);
    const Bytes sent = pattern(kBytes, turn);
    Bytes back(kBytes);
    test.copier.copy_async(data, sent.data(), kBytes, stream);
    test.copier.copy(back.data(), data, kBytes, stream);
    CHECK((back == sent));
    REQUIRE(sim::berth_sim_cuMemFree(address) == CUDA_SUCCESS);
  }
}

TEST_CASE("small copies run in the context of their stream, whichever is current") {
  for (const bool in : {true, false}) {
    CAPTURE(in);
    SmallCopies test(machine(sim::Progress::eager, "", 2));
    // `change` comes last before the copy: looking at device memory asks for the context, too.
    const auto copy_after = [&](const auto& change) {
      test.back.assign(test.back.size(), 0);
      test.device.write(in ? Bytes(64_KiB) : test.host);
      const CopyCounters before = test.copier.counters();
      in ? test.in(test.own) : test.out(test.own);
      change();
      in ? test.in(test.own) : test.out(test.own);
      const CopyCounters after = test.copier.counters();
      test.own.ref().sync();
      const Bytes there = in ? test.device.read() : test.back;
      CHECK(std::equal(there.begin(), there.begin() + kBytes, test.host.begin()));
      CHECK(after.copies_staged - before.copies_staged == 2);
      CHECK(after.bytes_copied - before.bytes_copied == 2 * kBytes);
    };
    const auto copy = [&] { copy_after([] {}); };
    copy();
    CUcontext own = nullptr;
    copy_after([&] { own = swap_context(nullptr); });  // without berth's knowledge
    copy();
    CHECK(swap_context(nullptr) == nullptr);
    copy_after([&] { test.runtime->devices().set_current(Device::cuda(1)); });
    CUcontext other = nullptr;
    copy_after([&] { other = swap_context(own); });
    copy_after([&] { swap_context(other); });
    copy();
    CHECK(test.runtime->devices().current() == Device::cuda(1));
    {
      const DeviceGuard guard(test.runtime->devices(), Device::cuda(1));
      copy();
      const DeviceGuard inner(test.runtime->devices(), Device::cuda(0));
      copy();
    }
    std::thread(copy).join();
  }
}

TEST_CASE("a small copy on a captured stream throws, and the capture stays valid") {
  SmallCopies test;
  Buffer pinned(test, Kind::pinned, kBytes);
  begin_capture(test.own);
  CHECK(contains(message_of<StreamCaptured>([&] { test.in(test.own); }), "by the host"));
  CHECK(contains(message_of<StreamCaptured>([&] { test.out_async(test.own); }), "by the host"));
  CHECK(contains(message_of<StreamCaptured>([&] { test.out(test.own); }), "waited for"));
  CHECK(contains(message_of<StreamCaptured>([&] {
                   test.copier.copy(pinned.data(), test.device.data(), kBytes, test.own);
                 }),
                 "waited for"));
  test.copier.copy_async(pinned.data(), test.device.data(), kBytes, test.own);
  const CapturedGraph graph(test.own);
  CHECK(graph.nodes() == 1);
  test.in(test.own);
  test.out(test.own);
}

TEST_CASE("a small copy to any kind of memory is over when copy() returns") {
  for (const auto progress : {sim::Progress::manual, sim::Progress::random}) {
    for (const Kind from : kKinds) {
      for (const Kind to : kKinds) {
        if (!may_copy(stream_device_of(from, to), from, to)) continue;
        CAPTURE(name_of(from));
        CAPTURE(name_of(to));
        CopyTest test(machine(progress, "", 2));
        const Stream stream = test.stream(stream_device_of(from, to));
        Buffer source(test, from, kBytes);
        Buffer target(test, to, kBytes);
        for (std::uint64_t round = 0; round < 3; ++round) {
          const Bytes content = pattern(kBytes, round);
          source.write(content);
          test.copier.copy(target.data(), source.data(), kBytes, stream);
          CHECK((target.read() == content));
          CHECK(target.guards_hold());
        }
      }
    }
  }
}

TEST_CASE("a failed small copy throws, and the next one works") {
  struct Case {
    const char* faults;
    bool in;
  };
  for (const Case each :
       {Case{"cuMemcpyAsync@3=unknown", true}, Case{"cuMemcpyAsync@3=unknown", false},
        Case{"cuMemcpyAsync@3=invalid_value", true},
        Case{"cuStreamSynchronize@3=unknown", false}}) {
    CAPTURE(each.faults);
    SmallCopies test(machine(sim::Progress::random, each.faults));
    const auto copy = [&] { each.in ? test.in(test.own) : test.out(test.own); };
    int failures = 0;
    for (int round = 0; round < 4; ++round) {
      try {
        copy();
      } catch (const DriverError&) {
        ++failures;
      }
    }
    CHECK(failures == 1);
    test.in(test.own);
    test.out(test.own);
    CHECK(std::equal(test.back.begin(), test.back.begin() + kBytes, test.host.begin()));
  }
}

TEST_CASE("small copies of a device that fails end with an error") {
  SmallCopies test(machine(sim::Progress::eager, "cuStreamIsCapturing@6=lost:0"));
  test.errors_expected = true;
  for (int round = 0; round < 6; ++round) {
    try {
      test.in(test.own);
      test.out(test.own);
    } catch (const DriverError&) {
      continue;
    }
  }
  CHECK_THROWS_AS(test.in(test.own), DriverError);
  CHECK_THROWS_AS(test.out(test.own), DriverError);
}

TEST_CASE("staging memory passes between threads without a race") {
  sim::Config config = machine(sim::Progress::eager);
  config.threads = sim::HostThreads::apart;
  SmallCopies test(config);
  std::atomic<int> turn = 0;
  const auto copy_in_turn = [&](int me) {
    test.runtime->devices().set_current(Device::cuda(0));
    const Stream stream = test.stream();
    Bytes out(kBytes);
    for (int round = 0; round < 8; ++round) {
      while (turn != me) std::this_thread::yield();
      test.copier.copy(out.data(), test.device.data(), kBytes, stream);
      turn = 1 - me;
    }
    CHECK(std::equal(out.begin(), out.end(), test.host.begin()));
  };
  std::thread first(copy_in_turn, 0);
  std::thread second(copy_in_turn, 1);
  first.join();
  second.join();
  CHECK(test.simulator.take_findings().empty());
}

TEST_CASE("in a forked child small copies are refused") {
  SmallCopies test;
  const auto is_refused = [&] {
    return is_refused_after_fork([&] { test.in(test.own); }) &&
           is_refused_after_fork([&] { test.out(test.own); });
  };
  CHECK(exit_code_without_waiting(is_refused) == 0);
  test.in(test.own);
}

}  // namespace small_copy_test
