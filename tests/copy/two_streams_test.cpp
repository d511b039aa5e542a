// SPDX-License-Identifier: Apache-2.0
// Copies between the work of two streams, which are joined by the copy itself.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/graph.hpp"

#include "copy/copy_fixture.hpp"
#include "support/errors.hpp"
#include "support/thinned.hpp"

namespace two_streams_test {

using namespace berth;
using namespace berth::test;

namespace {

constexpr std::size_t kBytes = 300'000;

sim::Config with_progress(sim::Progress progress, std::uint64_t seed = 1) {
  sim::Config config;
  config.devices = 3;
  config.progress = progress;
  config.seed = seed;
  return config;
}

/// The joins that CopyStreams makes, each of which may be left out.
struct Joins {
  bool before = true;
  bool after = true;
};

/// What the source's stream writes goes to the target's device and back, while both streams go on
/// with their memory. Returns what is wrong.
std::vector<std::string> run_program(std::uint64_t seed, Joins joins, bool is_by_hand) {
  CopyTest test(with_progress(sim::Progress::random, seed));
  const Stream first = test.stream(0);
  const Stream second = test.stream(1);
  Buffer source(test, Kind::device, kBytes);
  Buffer target(test, Kind::peer, kBytes);
  Buffer back(test, Kind::pinned, kBytes);
  const auto join = [&](bool is_wanted, StreamRef waiter, StreamRef stream) {
    if (is_wanted) test.runtime->join(waiter, {stream});
  };
  test.copier.fill_async(source.data(), 1, kBytes, first);
  test.copier.fill_async(target.data(), 2, kBytes, second);
  if (is_by_hand) {
    join(joins.before, second, first);
    test.copier.start(target.data(), source.data(), kBytes, second);
    join(joins.after, first, second);
  } else {
    test.copier.start(target.data(), source.data(), kBytes,
                      {.target_stream = second, .source_stream = first});
  }
  test.copier.fill_async(source.data(), 3, kBytes, first);
  test.copier.start(back.data(), target.data(), kBytes, second);
  first.ref().sync();
  second.ref().sync();
  std::vector<std::string> problems = test.simulator.take_findings();
  if (back.read() != Bytes(kBytes, 1)) problems.emplace_back("other bytes");
  if (source.read() != Bytes(kBytes, 3)) problems.emplace_back("the source has other bytes");
  return problems;
}

void begin_capture(StreamRef stream) {
  REQUIRE(sim::berth_sim_cuStreamBeginCapture(stream.native(), CU_STREAM_CAPTURE_MODE_RELAXED) ==
          CUDA_SUCCESS);
}

CUgraph end_capture(StreamRef stream) {
  CUgraph graph = nullptr;
  REQUIRE(sim::berth_sim_cuStreamEndCapture(stream.native(), &graph) == CUDA_SUCCESS);
  return graph;
}

}  // namespace

TEST_CASE("a copy between two streams races with the work of neither") {
  for (std::uint64_t seed = 1; seed <= 100; seed += std::uint64_t(Thinned(5).step())) {
    CAPTURE(seed);
    for (const std::string& problem : run_program(seed, {}, false)) FAIL_CHECK(problem);
  }
}

TEST_CASE("a missing join is reported") {
  for (const Joins joins : {Joins{.before = false}, Joins{.after = false}}) {
    CAPTURE(joins.before);
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      CAPTURE(seed);
      CHECK_FALSE(run_program(seed, joins, true).empty());
    }
  }
  CHECK(run_program(1, {}, true).empty());
}

TEST_CASE("a copy of two streams that is waited for has arrived, behind the work of both") {
  for (const Kind from : {Kind::device, Kind::pinned, Kind::pageable}) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, kBytes}) {
      CAPTURE(name_of(from));
      CAPTURE(bytes);
      CopyTest test(with_progress(sim::Progress::manual));
      const Stream first = test.stream(0);
      const Stream second = test.stream(1);
      Buffer source(test, from, bytes);
      Buffer target(test, Kind::peer, bytes);
      source.write(Bytes(bytes, 7));
      if (from == Kind::device) test.copier.fill_async(source.data(), 8, bytes, first);
      test.copier.fill_async(target.data(), 2, bytes, second);
      test.copier.copy(target.data(), source.data(), bytes,
                       {.target_stream = second, .source_stream = first});
      CHECK(target.read() == Bytes(bytes, from == Kind::device ? 8 : 7));
      test.copier.copy(source.data(), target.data(), bytes,
                       {.target_stream = first, .source_stream = second});
      CHECK(source.read() == target.read());
      test.copier.copy(nullptr, nullptr, 0, {.target_stream = first, .source_stream = second});
      for (const std::string& finding : test.simulator.take_findings()) FAIL_CHECK(finding);
    }
  }
}

TEST_CASE("a copy of two streams that is waited for is refused if either is captured") {
  CopyTest test(with_progress(sim::Progress::manual));
  const Stream captured = test.stream(0);
  const Stream other = test.stream(1);
  Buffer source(test, Kind::device, kBytes);
  Buffer target(test, Kind::peer, kBytes);
  GraphCapture capture(captured);
  for (const CopyStreams streams :
       {CopyStreams{.target_stream = other, .source_stream = captured},
        CopyStreams{.target_stream = captured, .source_stream = other},
        CopyStreams{.target_stream = captured, .source_stream = captured}}) {
    CHECK(contains(message_of<StreamCaptured>(
                       [&] { test.copier.copy(target.data(), source.data(), kBytes, streams); }),
                   "cannot be waited for while it is captured"));
  }
  CHECK(bool(capture.end()));
}

TEST_CASE("the copy waits for earlier work of both streams, and later work of both for the copy" *
          needs_gates()) {
  for (const bool to_second : {true, false}) {
    for (const Kind host : {Kind::peer, Kind::pinned, Kind::pageable}) {
      CAPTURE(to_second);
      CAPTURE(name_of(host));
      CopyTest test(with_progress(sim::Progress::manual));
      const Stream first = test.stream(0);
      const Stream second = test.stream(1);
      Buffer on_first(test, Kind::device, kBytes);
      Buffer other(test, host, kBytes);
      Buffer& target = to_second ? other : on_first;
      Buffer& source = to_second ? on_first : other;
      const Bytes content = pattern(kBytes, 1);
      source.write(content);
      for (const StreamRef stream : {first.ref(), second.ref()}) test.log.submit(stream, "before");
      const Transfer transfer = test.copier.start(target.data(), source.data(), kBytes,
                                                  {.target_stream = to_second ? second : first,
                                                   .source_stream = to_second ? first : second});
      for (const StreamRef stream : {first.ref(), second.ref()}) test.log.submit(stream, "after");
      CHECK(test.log.done().empty());
      transfer.wait();
      // Exactly the two of before: nothing behind the copy has run, and all before it has.
      CHECK((test.log.done() == std::vector<std::string>{"before", "before"}));
      CHECK((target.read() == content));
      first.ref().sync();
      second.ref().sync();
      CHECK(test.log.done().size() == 4);
    }
  }
}

TEST_CASE("the copy runs on whichever of the two streams suits its device") {
  CopyTest test(with_progress(sim::Progress::manual));
  const Stream on_0 = test.stream(0);
  const Stream on_1 = test.stream(1);
  const Stream on_2 = test.stream(2);
  Buffer device(test, Kind::device, 1000);
  Buffer peer(test, Kind::peer, 1000);
  Buffer pinned(test, Kind::pinned, 1000);
  // Nobody copies on cuda:2: the consumer of host memory waits there.
  test.log.submit(on_2, "earlier");
  test.copier.start(pinned.data(), device.data(), 1000,
                    {.target_stream = on_2, .source_stream = on_0});
  test.log.submit(on_0, "behind");
  on_0.ref().sync();
  CHECK((test.log.done() == std::vector<std::string>{"earlier", "behind"}));
  const auto refused = message_of<InvalidArgument>([&] {
    test.copier.start(peer.data(), pinned.data(), 1000,
                      {.target_stream = on_2, .source_stream = on_0});
  });
  CHECK(contains(refused, "a stream of cuda:2 cannot copy memory of cuda:1"));
  // The same stream twice joins nothing.
  const std::uint64_t waits = driver_calls(*test.runtime, "cuStreamWaitEvent");
  test.copier.copy_async(peer.data(), pinned.data(), 1000,
                         {.target_stream = on_1, .source_stream = on_1});
  CHECK(driver_calls(*test.runtime, "cuStreamWaitEvent") == waits);
  on_1.ref().sync();
}

TEST_CASE("rows and batches are copied between two streams as well") {
  for (const bool is_batch : {true, false}) {
    CAPTURE(is_batch);
    CopyTest test(with_progress(sim::Progress::manual));
    const Stream first = test.stream(0);
    const Stream second = test.stream(1);
    Buffer source(test, Kind::device, kBytes);
    Buffer target(test, Kind::peer, kBytes);
    Buffer host(test, Kind::pageable, 1000);
    const Bytes content = pattern(kBytes, 2);
    const Bytes on_host = pattern(1000, 3);
    source.write(content);
    host.write(on_host);
    test.log.submit(first, "before");
    std::atomic<int> ends = 0;
    Transfer transfer;
    const CopyStreams streams{.target_stream = second, .source_stream = first};
    const TransferOptions options{.on_done = [&](const std::exception_ptr& failure) {
      CHECK(failure == nullptr);
      ++ends;
    }};
    if (is_batch) {
      const std::vector<CopyRange> copies = {
          {target.data(), source.data(), 100'000},
          {target.data() + 200'000, source.data() + 200'000, 100'000},
          {target.data() + 100'000, host.data(), 1000}};
      transfer = test.copier.start_batch(copies, streams, options);
      CHECK(transfer.bytes() == 201'000);
    } else {
      transfer = test.copier.start_rows({target.data(), 1000}, {source.data(), 1000}, 500, 300,
                                        streams, options);
    }
    test.log.submit(first, "after");
    CHECK(test.log.done().empty());
    transfer.wait();
    CHECK((test.log.done() == std::vector<std::string>{"before"}));
    first.ref().sync();
    const Bytes arrived = target.read();
    CHECK(std::equal(arrived.begin(), arrived.begin() + 500, content.begin()));
    CHECK(std::equal(arrived.begin() + 299'000, arrived.begin() + 299'500,
                     content.begin() + 299'000));
    if (is_batch) CHECK(std::equal(on_host.begin(), on_host.end(), arrived.begin() + 100'000));
    second.ref().sync();
    test.runtime->completions().finish();
    CHECK(ends == 1);
  }
}

TEST_CASE("two captured streams take the copy into their graph, and one alone is refused") {
  CopyTest test(with_progress(sim::Progress::manual));
  const Stream first = test.stream(0);
  const Stream second = test.stream(0);
  Buffer source(test, Kind::device, 1000);
  Buffer target(test, Kind::foreign_device, 1000);
  const CopyStreams streams{.target_stream = second, .source_stream = first};
  const DeviceGuard guard(test.runtime->devices(), Device::cuda(0));
  for (const StreamRef captured : {first.ref(), second.ref()}) {
    begin_capture(captured);
    message_of<StreamCaptured>(
        [&] { test.copier.start(target.data(), source.data(), 1000, streams); });
    CHECK(first.ref().is_capturing() == (captured == first.ref()));
    CHECK(second.ref().is_capturing() == (captured == second.ref()));
    REQUIRE(sim::berth_sim_cuGraphDestroy(end_capture(captured)) == CUDA_SUCCESS);
  }
  begin_capture(first);
  test.runtime->join(second, {first});  // draws the second into the capture
  CHECK(second.ref().is_capturing());
  const std::uint64_t copies = driver_calls(*test.runtime, "cuMemcpyAsync");
  test.copier.start(target.data(), source.data(), 1000, streams);
  CHECK(driver_calls(*test.runtime, "cuMemcpyAsync") == copies + 1);
  CUgraph graph = end_capture(first);  // fails where the second has not been joined
  CHECK(graph != nullptr);
  REQUIRE(sim::berth_sim_cuGraphDestroy(graph) == CUDA_SUCCESS);
}

TEST_CASE("a failure after the copy was submitted is thrown once the copy has finished") {
  struct Case {
    std::string fault;
    bool returns_transfer;
  };
  const Case cases[] = {{"cuStreamWaitEvent@2=unknown", true},
                        {"cuStreamWaitEvent@2=unknown", false},
                        {"cuEventRecord@3=unknown", true},
                        {"cuEventRecord@2=unknown", false}};
  for (const Case& each : cases) {
    CAPTURE(each.fault);
    CAPTURE(each.returns_transfer);
    sim::Config config = with_progress(sim::Progress::manual);
    config.faults = sim::FaultPlan::parse(each.fault);
    CopyTest test(config);
    const Stream first = test.stream(0);
    const Stream second = test.stream(1);
    Buffer source(test, Kind::device, 1000);
    Buffer target(test, Kind::peer, 1000);
    const Bytes content = pattern(1000, 4);
    source.write(content);
    bool is_told = false;
    const CopyStreams streams{.target_stream = second, .source_stream = first};
    message_of<DriverError>([&] {
      if (!each.returns_transfer)
        return test.copier.copy_async(target.data(), source.data(), 1000, streams);
      test.copier.start(target.data(), source.data(), 1000, streams,
                        {.on_done = [&](const std::exception_ptr&) { is_told = true; }});
    });
    CHECK((target.read() == content));
    first.ref().sync();
    second.ref().sync();
    CHECK_FALSE(is_told);
  }
}

}  // namespace two_streams_test
