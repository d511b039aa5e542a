// SPDX-License-Identifier: Apache-2.0
// The allocator of pageable host memory.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/host_allocator.hpp"

#include "support/allocator_checks.hpp"
#include "support/captured_graph.hpp"
#include "support/child_process.hpp"
#include "support/errors.hpp"
#include "support/simulation.hpp"

namespace host_allocator_contract_test {

using namespace berth;
using namespace berth::test;

namespace {

RuntimeOptions host_options(std::optional<std::size_t> bytes_max) {
  RuntimeOptions options;
  options.host_allocator.bytes_reserved_max = bytes_max;
  return options;
}

struct HostTest : Simulation {
  explicit HostTest(const sim::Config& config = manual_progress(),
                    std::optional<std::size_t> bytes_max = std::nullopt)
      : Simulation(config, host_options(bytes_max)), memory(runtime->host_memory()) {}

  [[nodiscard]] Stream stream() { return runtime->create_stream(Device::cuda(0)); }
  [[nodiscard]] MemoryCounters counters() const { return memory.counters(); }
  [[nodiscard]] std::uint64_t pending() const { return counters().blocks_pending.current; }
  /// Allocates once, which asks about blocks that await streams.
  void allocate_once() { memory.deallocate(memory.allocate_raw(1)); }

  HostAllocator& memory;
};

}  // namespace

TEST_CASE("host memory is aligned, readable and writable, and counted as requested") {
  HostTest test;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65},
                                  std::size_t{100'001}, 33_MiB + 5}) {
    CAPTURE(bytes);
    const Allocation block = test.memory.allocate(bytes);
    CHECK(address_of(block.data()) % HostAllocator::kAlignment == 0);
    std::memset(block.data(), 0x5A, bytes);
    CHECK(test.counters().bytes_requested.current == bytes);
    CHECK(test.counters().bytes_allocated.current == (bytes + 63) / 64 * 64);
    CHECK(test.counters().bytes_reserved.current == test.counters().bytes_allocated.current);
    check_whole(test.memory);
  }
  CHECK(test.counters().blocks_allocated.current == 0);
  CHECK(test.counters().bytes_reserved.current == 0);
  CHECK(test.counters().bytes_requested.peak == 33_MiB + 5);
  check_whole(test.memory);
}

TEST_CASE("host memory of 0 bytes is empty and counts nothing") {
  HostTest test;
  CHECK_FALSE(test.memory.allocate(0));
  CHECK(test.memory.allocate_raw(0) == nullptr);
  test.memory.deallocate(nullptr);
  CHECK(same_levels(test.counters(), MemoryCounters{}));
}

TEST_CASE("host memory that no stream uses is freed at once, without a driver call") {
  HostTest test;
  const Stream stream = test.stream();
  test.log.submit(stream, "pending");
  const std::uint64_t calls = driver_calls(*test.runtime);
  for (int round = 0; round < 3; ++round) test.allocate_once();
  CHECK(test.counters().bytes_active.current == 0);
  CHECK(test.counters().segments_released == 3);
  CHECK(driver_calls(*test.runtime) == calls);
}

TEST_CASE("host memory works where there is no driver") {
  RuntimeOptions options;
  options.driver = "/nonexistent/libcuda.so.1";
  options.host_allocator.bytes_reserved_max = 1_MiB;
  Runtime runtime(options);
  HostAllocator& memory = runtime.host_memory();
  {
    const Allocation block = memory.allocate(1000);
    std::memset(block.data(), 1, block.bytes());
    message_of<OutOfMemory>([&] { return memory.allocate(1_MiB); });
    check_whole(memory);
  }
  CHECK(memory.trim() == 0);
  CHECK(memory.counters().bytes_reserved.current == 0);
}

TEST_CASE("freed host memory stays until the streams that were recorded for it are done with it") {
  HostTest test;
  const Stream one = test.stream();
  const Stream other = test.stream();
  void* const data = test.memory.allocate_raw(1000);
  test.log.submit(one, "one");
  test.log.submit(other, "other");
  test.memory.record_stream(data, one);
  test.memory.record_stream(data, one);
  test.memory.record_stream(data, other);
  test.memory.deallocate(data);
  CHECK(test.counters().frees_deferred == 1);
  CHECK(test.counters().bytes_active.current == 1024);
  CHECK(test.counters().bytes_allocated.current == 0);
  check_whole(test.memory);

  one.ref().sync();
  test.allocate_once();
  CHECK(test.pending() == 1);
  CHECK_FALSE(test.log.is_done("other"));
  other.ref().sync();
  test.allocate_once();
  CHECK(test.pending() == 0);
  CHECK(test.counters().frees_reclaimed == 1);
  check_whole(test.memory);
}

TEST_CASE("a recorded use of host memory ends with the work that the stream held then") {
  HostTest test;
  const Stream stream = test.stream();
  void* const data = test.memory.allocate_raw(1000);
  test.log.submit(stream, "use");
  test.memory.record_use(data, stream);
  test.log.submit(stream, "later");
  const std::uint64_t calls = driver_calls(*test.runtime);
  test.memory.deallocate(data);
  CHECK(driver_calls(*test.runtime) == calls);
  CHECK(test.memory.release_unused({}) == 0);
  test.run_next(stream);
  test.run_next(stream);  // the mark behind it
  CHECK(test.log.is_done("use"));
  CHECK(test.memory.release_unused({}) == 1024);
  CHECK_FALSE(test.log.is_done("later"));
}

TEST_CASE("a later use of a stream replaces the earlier, and record_stream() replaces all") {
  HostTest test;
  const Stream stream = test.stream();
  void* const data = test.memory.allocate_raw(1000);
  test.log.submit(stream, "first");
  test.memory.record_use(data, stream);
  test.log.submit(stream, "second");
  test.memory.record_use(data, stream);
  std::string last = "second";
  SUBCASE("record_use() twice") {}
  SUBCASE("record_use(), then record_stream()") {
    test.memory.record_stream(data, stream);
    test.log.submit(stream, "third");
    last = "third";
  }
  SUBCASE("record_stream(), then record_use()") {
    test.memory.record_stream(data, stream);
    test.memory.record_use(data, stream);
    test.log.submit(stream, "third");
    last = "third";
  }
  test.memory.deallocate(data);
  while (!test.log.is_done(last)) {
    CHECK(test.memory.release_unused({}) == 0);
    test.run_next(stream);
  }
  test.run_next(stream);  // the mark behind it
  CHECK(test.memory.release_unused({}) == 1024);
}

TEST_CASE("one slow stream delays the reuse of its own host memory only") {
  HostTest test;
  const Stream slow = test.stream();
  const Stream quick = test.stream();
  test.log.submit(slow, "slow");
  for (const StreamRef user : {slow.ref(), quick.ref(), quick.ref(), quick.ref()}) {
    void* const data = test.memory.allocate_raw(1000);
    test.memory.record_stream(data, user);
    test.memory.deallocate(data);
  }
  quick.ref().sync();
  for (int round = 0; round < 4; ++round) test.allocate_once();
  CHECK(test.pending() == 1);
  CHECK_FALSE(test.log.is_done("slow"));
}

TEST_CASE("an allocation queries two deferred blocks, however many there are") {
  HostTest test;
  const Stream stream = test.stream();
  test.log.submit(stream, "work");
  for (int index = 0; index < 100; ++index) {
    void* const data = test.memory.allocate_raw(1000);
    test.memory.record_use(data, stream);
    test.memory.deallocate(data);
  }
  CHECK(test.pending() == 100);
  const auto queries = [&] {
    for (const DriverCallCount& call : test.runtime->statistics().driver_calls) {
      if (call.function == "cuEventQuery") return call.calls;
    }
    return std::uint64_t{0};
  };
  const std::uint64_t before = queries();
  test.allocate_once();
  CHECK(queries() - before == 2);
  stream.ref().sync();
  for (int round = 0; round < 50; ++round) test.allocate_once();
  CHECK(test.pending() == 0);
  check_whole(test.memory);
}

TEST_CASE("at its limit a request waits for memory that streams use, and is then refused") {
  HostTest test(manual_progress(), 10_KiB);
  const Stream stream = test.stream();
  const Stream later = test.stream();
  void* const freed = test.memory.allocate_raw(4_KiB);
  void* const other = test.memory.allocate_raw(4_KiB);
  test.log.submit(stream, "work");
  test.log.submit(later, "later");
  test.memory.record_stream(freed, stream);
  test.memory.record_stream(other, later);
  test.memory.deallocate(freed);
  test.memory.deallocate(other);
  const Allocation block = test.memory.allocate(6_KiB);
  CHECK(test.log.is_done("work"));
  CHECK_FALSE(test.log.is_done("later"));
  CHECK(test.counters().deferred_free_waits == 1);
  CHECK(test.counters().limit_rejections >= 1);
  check_whole(test.memory);

  const std::string message = message_of<OutOfMemory>([&] { return test.memory.allocate(5_KiB); });
  CHECK(contains(message, "cpu"));
  CHECK(contains(message, "limit 10.0 KiB"));
  CHECK(test.log.is_done("later"));
  CHECK(test.counters().out_of_memory == 1);
  CHECK(test.memory.allocate(4_KiB));
  check_whole(test.memory);
}

TEST_CASE("a request that malloc cannot serve is refused, and the next one works") {
  HostTest test;
  for (const std::size_t bytes :
       {std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max() - 64,
        std::size_t{std::numeric_limits<std::ptrdiff_t>::max()},
        std::size_t{std::numeric_limits<std::ptrdiff_t>::max()} - 64}) {
    CAPTURE(bytes);
    CHECK(contains(message_of<OutOfMemory>([&] { return test.memory.allocate(bytes); }), "cpu"));
    message_of(test.memory.try_allocate(bytes), Errc::out_of_memory);
  }
  CHECK(test.memory.allocate(100));
  check_whole(test.memory);
}

TEST_CASE("pointers that are no live block of host memory are refused with the reason") {
  HostTest test;
  const Stream stream = test.stream();
  test.log.submit(stream, "work");
  Allocation live = test.memory.allocate(1000);
  void* const freed = test.memory.allocate_raw(1000);
  test.memory.record_stream(freed, stream);
  test.memory.deallocate(freed);
  void* const gone = test.memory.allocate_raw(1000);
  test.memory.deallocate(gone);
  int foreign = 0;
  const std::pair<void*, const char*> pointers[] = {
      {static_cast<std::byte*>(live.data()) + 100, "100 B into the live block"},
      {freed, "freed before"},
      {gone, "it was freed before, or belongs to another allocator"},
      {&foreign, "it was freed before, or belongs to another allocator"}};
  for (const auto& pointer : pointers) {
    void* const refused = pointer.first;
    for (const std::string& message :
         {message_of<InvalidArgument>([&] { test.memory.deallocate(refused); }),
          message_of<InvalidArgument>([&] { test.memory.record_stream(refused, stream); }),
          message_of<InvalidArgument>([&] { test.memory.record_use(refused, stream); })}) {
      CHECK(contains(message, pointer.second));
      CHECK(contains(message, "of cpu"));
    }
  }
  const StreamRef nobodys = test.runtime->per_thread_default_stream(Device::cuda(0));
  message_of<InvalidArgument>([&] { live.record_stream(nobodys); });
  message_of<InvalidArgument>([&] { live.record_use(nobodys); });
  CHECK(test.counters().blocks_allocated.current == 1);
  CHECK(test.pending() == 1);
  check_whole(test.memory);
}

TEST_CASE("a stream of another Runtime is refused for host memory, and nothing changes") {
  HostTest test;
  Runtime other({.driver = "sim"});
  const Stream others = other.create_stream(Device::cuda(0));
  const Allocation live = test.memory.allocate(1000);
  const MemoryCounters before = test.counters();
  const auto refuses = [](const auto& call) {
    CHECK(contains(message_of<InvalidArgument>(call), "a stream of cuda:0 of another Runtime"));
  };
  refuses([&] { live.record_stream(others); });
  refuses([&] { live.record_use(others); });
  CHECK(same_levels(test.counters(), before));
  refuses([&] { static_cast<void>(test.memory.allocate_raw(1000, others)); });
  CHECK(test.counters().blocks_allocated.current == 1);
  CHECK(test.pending() == 0);
  check_whole(test.memory);
}

TEST_CASE("memory of a destroyed stream waits for its work") {
  HostTest test;
  void* const live = test.memory.allocate_raw(1000);
  {
    const Stream stream = test.stream();
    test.log.submit(stream, "work");
    test.memory.record_stream(live, stream);
  }
  test.memory.deallocate(live);
  CHECK(test.memory.release_unused({}) == 0);
  CHECK(test.memory.trim() == 1024);
  CHECK(test.log.is_done("work"));
  check_whole(test.memory);
}

TEST_CASE("host memory that a captured stream uses stays until the capture is over") {
  HostTest test;
  const Stream stream = test.stream();
  void* const data = test.memory.allocate_raw(1000);
  begin_capture(stream);
  test.memory.record_use(data, stream);
  test.memory.deallocate(data);
  test.allocate_once();
  CHECK(test.memory.trim() == 0);
  CHECK(test.pending() == 1);
  const CapturedGraph graph(stream);
  CHECK(graph.nodes() == 0);
  test.log.submit(stream, "after");
  CHECK(test.memory.release_unused({}) == 0);  // marked only now
  CHECK(test.memory.trim() == 1024);
}

TEST_CASE("trim waits for no more work than bytes_to_keep requires") {
  HostTest test;
  const Stream first = test.stream();
  const Stream second = test.stream();
  test.log.submit(first, "first");
  test.log.submit(second, "second");
  for (const StreamRef user : {first.ref(), second.ref()}) {
    void* const data = test.memory.allocate_raw(4_KiB);
    test.memory.record_stream(data, user);
    test.memory.deallocate(data);
  }
  CHECK(test.memory.trim(4_KiB) == 4_KiB);
  CHECK(test.log.is_done("first"));
  CHECK_FALSE(test.log.is_done("second"));
  CHECK(test.memory.trim() == 4_KiB);
  CHECK(test.log.is_done("second"));
}

TEST_CASE("the destructor of a Runtime reports live host memory") {
  HostTest test;
  static_cast<void>(test.memory.allocate_raw(100));
  test.runtime.reset();
  CHECK(test.reports.mention("cpu: 1 allocation of 100 B was still live"));
}

TEST_CASE("a forked child can use host memory, whatever other threads of the parent were doing") {
  HostTest test;
  const Stream stream = test.stream();
  test.log.submit(stream, "never done in the child");
  void* const used = test.memory.allocate_raw(1000);
  void* const awaited = test.memory.allocate_raw(1000);
  test.memory.record_stream(used, stream);
  test.memory.record_stream(awaited, stream);
  test.memory.deallocate(awaited);
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) test.memory.deallocate(test.memory.allocate_raw(64));
  });
  for (int round = 0; round < 20; ++round) {
    const std::optional<int> code = exit_code_of([&] {
      const Allocation block = test.memory.allocate(5000);
      std::memset(block.data(), 1, block.bytes());
      void* const gone = test.memory.allocate_raw(5000);
      test.memory.deallocate(gone);
      test.memory.deallocate(used);
      const bool refused = is_refused_after_fork([&] { block.record_stream(stream); }) &&
                           is_refused_after_fork([&] { block.record_use(stream); });
      const bool counted = test.pending() == 1 && test.memory.trim() == 0;
      _exit(refused && counted ? 0 : 1);
      return 2;
    });
    CHECK(code == 0);
  }
  stop = true;
  busy.join();
  test.memory.deallocate(used);
  CHECK(test.memory.trim() == 2048);
  check_whole(test.memory);
}

TEST_CASE("threads share host memory, free what others allocated, and lose nothing") {
  HostTest test(sim::Config{});
  constexpr int kThreads = 4;
  constexpr int kRounds = 500;
  std::vector<std::vector<void*>> made(kThreads);
  const auto in_threads = [&](const auto& work) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
    for (std::thread& thread : threads) thread.join();
  };
  in_threads([&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      void* const data = test.memory.allocate_raw(std::size_t(1 + round));
      std::memset(data, thread, std::size_t(1 + round));
      made[std::size_t(thread)].push_back(data);
    }
  });
  CHECK(test.counters().blocks_allocated.current == kThreads * kRounds);
  check_whole(test.memory);
  in_threads([&](int thread) {
    const Stream stream = test.stream();
    for (void* const data : made[std::size_t((thread + 1) % kThreads)]) {
      if (address_of(data) % 3 == 0) test.memory.record_stream(data, stream);
      test.memory.deallocate(data);
      if (address_of(data) % 5 == 0) test.allocate_once();
    }
  });
  test.memory.trim();
  CHECK(test.counters().bytes_reserved.current == 0);
  CHECK(test.counters().allocations == test.counters().frees);
  check_whole(test.memory);
}

}  // namespace host_allocator_contract_test
