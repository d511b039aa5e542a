// SPDX-License-Identifier: Apache-2.0
// The pools of libberth_torch.so, as PyTorch's graphs call them: by address, with filters that are
// std::function.
#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/graph.hpp"
#include "berth/runtime.hpp"

#include "torch/berth_torch.h"

namespace berth {
namespace {

// As CUDAPluggableAllocator keeps them.
using PoolId = std::pair<unsigned long long, unsigned long long>;
using StreamFilter = std::function<bool(CUstream_st*)>;
const std::function<void*(std::size_t, int, CUstream_st*)> from_pool = berth_torch_alloc_or_throw;
const std::function<void(void*, std::size_t, int, CUstream_st*)> to_pool = berth_torch_free;
const std::function<void(int, PoolId, StreamFilter)> begin = berth_torch_begin_allocate_to_pool;
const std::function<void(int, PoolId)> end = berth_torch_end_allocate_to_pool;
const std::function<void(int, PoolId)> release = berth_torch_release_pool;

/// The runtime that PyTorch gets, and two of its streams.
struct PoolsTest {
  Runtime& runtime = runtime_of(berth_torch_runtime());
  const Device device = Device::cuda(0);
  const Stream captured = runtime.create_stream(device);
  const Stream other = runtime.create_stream(device);
  const PoolId id{7, 0};

  [[nodiscard]] StreamFilter only(const Stream& stream) const {
    return [native = stream.ref().native()](CUstream_st* asked) { return asked == native; };
  }
  [[nodiscard]] bool is_pooled(void* data) const {
    return runtime.memory(device).is_for_graphs(data);
  }
};

TEST_CASE_FIXTURE(PoolsTest, "a filter routes requests to a pool until the route ends") {
  begin(0, id, only(captured));
  void* const pooled = from_pool(1_MiB, 0, captured.ref().native());
  void* const beside = from_pool(1_MiB, 0, other.ref().native());
  CHECK(is_pooled(pooled));
  CHECK_FALSE(is_pooled(beside));
  CHECK_FALSE(is_pooled(from_pool(1_MiB, 1, nullptr)));
  end(0, id);
  void* const after = from_pool(1_MiB, 0, captured.ref().native());
  CHECK_FALSE(is_pooled(after));
  for (void* const block : {pooled, beside, after}) to_pool(block, 1_MiB, 0, nullptr);
  release(0, id);
}

TEST_CASE_FIXTURE(PoolsTest, "a captured stream allocates, and the graph keeps its memory") {
  void* target = nullptr;
  std::optional<Graph> graph;
  const Allocation host = runtime.pinned_memory().allocate(1_MiB);
  static_cast<unsigned char*>(host.data())[7] = 42;
  begin(0, id, only(captured));
  {
    GraphCapture capture(captured);
    target = from_pool(1_MiB, 0, captured.ref().native());
    runtime.copier().copy_async(target, host.data(), 1_MiB, captured);
    to_pool(target, 1_MiB, 0, captured.ref().native());
    graph.emplace(capture.end());
  }
  end(0, id);
  berth_torch_reset();  // returns nothing of a pool in use
  void* const beside = from_pool(1_MiB, 0, captured.ref().native());
  CHECK(beside != target);
  graph->replay(captured);
  unsigned char read = 0;
  runtime.copier().copy(&read, static_cast<unsigned char*>(target) + 7, 1, captured);
  CHECK(read == 42);
  to_pool(beside, 1_MiB, 0, nullptr);
  graph.reset();
  release(0, id);
}

TEST_CASE_FIXTURE(PoolsTest, "a capture that has ended does not keep memory from being returned") {
  const auto function = [&]<class Function>(const char* name, int version, Function*& found) {
    found = reinterpret_cast<Function*>(runtime.driver_function(name, version));
    REQUIRE(static_cast<bool>(found));
  };
  int (*create)(CUstream_st**, unsigned) = nullptr;
  int (*begin_capture)(CUstream_st*, int) = nullptr;
  int (*end_capture)(CUstream_st*, void**) = nullptr;
  int (*destroy_graph)(void*) = nullptr;
  function("cuStreamCreate", 2000, create);
  function("cuStreamBeginCapture", 10010, begin_capture);
  function("cuStreamEndCapture", 10000, end_capture);
  function("cuGraphDestroy", 10000, destroy_graph);
  CUstream_st* theirs = nullptr;  // PyTorch's, which no call names later
  runtime.devices().set_current(device);
  REQUIRE(create(&theirs, 1) == 0);
  berth_torch_reset();
  const std::size_t before = runtime.memory(device).pool_snapshots().size();
  REQUIRE(begin_capture(theirs, 0) == 0);
  begin(0, id, [theirs](CUstream_st* asked) { return asked == theirs; });
  to_pool(from_pool(1_MiB, 0, theirs), 1_MiB, 0, theirs);
  void* graph = nullptr;
  REQUIRE(end_capture(theirs, &graph) == 0);
  end(0, id);
  release(0, id);
  berth_torch_reset();
  CHECK(runtime.memory(device).pool_snapshots().size() == before);
  CHECK(destroy_graph(graph) == 0);
}

TEST_CASE_FIXTURE(PoolsTest, "a pool is closed after its last use, once the device is idle") {
  const auto pools = [&] { return runtime.memory(device).pool_snapshots().size(); };
  berth_torch_reset();
  const std::size_t before = pools();
  begin(0, id, only(captured));
  end(0, id);
  begin(0, id, only(captured));
  end(0, id);
  CHECK(pools() == before + 1);
  release(0, id);
  berth_torch_reset();
  CHECK(pools() == before + 1);
  release(0, id);
  CHECK(pools() == before + 1);
  berth_torch_reset();
  CHECK(pools() == before);
}

TEST_CASE_FIXTURE(PoolsTest,
                  "memory of a released pool serves other streams when the device runs short") {
  berth_torch_reset();
  berth_torch_memory_fraction(64.0 / 1024, 0);
  begin(0, id, only(captured));
  to_pool(from_pool(48_MiB, 0, captured.ref().native()), 0, 0, nullptr);
  end(0, id);
  CHECK_THROWS_AS(static_cast<void>(from_pool(48_MiB, 0, other.ref().native())), OutOfMemory);
  release(0, id);
  void* const block = from_pool(48_MiB, 0, other.ref().native());
  CHECK(block != nullptr);
  to_pool(block, 48_MiB, 0, nullptr);
  berth_torch_memory_fraction(1.0, 0);
}

TEST_CASE_FIXTURE(PoolsTest, "a request of a capture does not wait for released pools") {
  berth_torch_reset();
  const PoolId earlier{6, 0};
  begin(0, earlier, only(other));
  end(0, earlier);
  release(0, earlier);
  begin(0, id, only(captured));
  {
    GraphCapture capture(captured);
    CHECK(berth_torch_alloc(2_GiB, 0, captured.ref().native()) == nullptr);
    CHECK(capture.end());  // is valid
  }
  end(0, id);
  release(0, id);
  berth_torch_reset();
}

TEST_CASE_FIXTURE(PoolsTest, "the latest route serves a stream that several routes accept") {
  const PoolId later{8, 0};
  begin(0, id, [](CUstream_st*) { return true; });
  begin(0, later, only(captured));
  void* const inner = from_pool(1_MiB, 0, captured.ref().native());
  void* const outer = from_pool(1_MiB, 0, other.ref().native());
  const auto pool_of = [&](void* data) {
    for (const MemorySnapshot& pool : runtime.memory(device).pool_snapshots())
      for (const SegmentInfo& segment : pool.segments)
        if (reinterpret_cast<std::uintptr_t>(data) - segment.address < segment.bytes)
          return pool.allocator;
    return std::string();
  };
  CHECK(pool_of(inner) == "cuda:0/torch 8.0");
  CHECK(pool_of(outer) == "cuda:0/torch 7.0");
  end(0, id);
  CHECK_FALSE(is_pooled(from_pool(1_MiB, 0, other.ref().native())));
  end(0, later);
  for (void* const block : {inner, outer}) to_pool(block, 1_MiB, 0, nullptr);
  release(0, id);
  release(0, later);
}

TEST_CASE_FIXTURE(PoolsTest,
                  "an exception of a filter fails the request, and the next request succeeds") {
  bool is_broken = true;
  begin(0, id, [&](CUstream_st*) {
    if (is_broken) throw std::runtime_error("no capture state");
    return true;
  });
  CHECK_THROWS_WITH(static_cast<void>(from_pool(1_MiB, 0, nullptr)), "no capture state");
  CHECK(berth_torch_alloc(1_MiB, 0, nullptr) == nullptr);
  is_broken = false;
  void* const block = from_pool(1_MiB, 0, nullptr);
  CHECK(is_pooled(block));
  to_pool(block, 1_MiB, 0, nullptr);
  end(0, id);
  release(0, id);
}

TEST_CASE_FIXTURE(PoolsTest, "a filter may call the library") {
  begin(0, id, [&](CUstream_st* stream) {
    if (stream == nullptr) return false;
    end(0, id);  // this route
    to_pool(from_pool(1_KiB, 0, nullptr), 1_KiB, 0, nullptr);
    return true;
  });
  void* const block = from_pool(1_MiB, 0, captured.ref().native());
  CHECK(is_pooled(block));
  CHECK_FALSE(is_pooled(from_pool(1_MiB, 0, captured.ref().native())));
  to_pool(block, 1_MiB, 0, nullptr);
  release(0, id);
}

TEST_CASE_FIXTURE(PoolsTest, "calls that name no pool or device change nothing") {
  end(0, id);
  release(0, id);
  CHECK_THROWS_AS(begin(9, id, only(captured)), InvalidArgument);
  begin(0, id, nullptr);  // every stream
  void* const block = from_pool(1_MiB, 0, nullptr);
  CHECK(is_pooled(block));
  end(1, id);
  to_pool(block, 1_MiB, 0, nullptr);
  end(0, id);
  end(0, id);
  release(0, id);
}

TEST_CASE_FIXTURE(PoolsTest, "base addresses are found and streams recorded for blocks of pools") {
  begin(0, id, only(captured));
  void* const block = from_pool(3_MiB, 0, captured.ref().native());
  end(0, id);
  std::size_t bytes = 0;
  CHECK(berth_torch_base_alloc(static_cast<char*>(block) + 1_MiB, &bytes) == block);
  CHECK(bytes == 3_MiB);
  CHECK(berth_torch_base_alloc(block, nullptr) == block);
  CHECK_THROWS_AS(static_cast<void>(berth_torch_base_alloc(&bytes, &bytes)), InvalidArgument);
  CHECK_THROWS_AS(static_cast<void>(berth_torch_base_alloc(nullptr, &bytes)), InvalidArgument);
  const Allocation host = runtime.pinned_memory().allocate(3_MiB);
  runtime.copier().copy_async(host.data(), block, 3_MiB, other);
  berth_torch_record_stream(block, other.ref().native());
  to_pool(block, 3_MiB, 0, nullptr);
  CHECK(runtime.memory(device).pool_snapshots().back().counters.blocks_pending.current == 1);
  other.ref().sync();
  release(0, id);
}

TEST_CASE_FIXTURE(PoolsTest,
                  "a forked child is refused memory and does not affect the parent's pools") {
  begin(0, id, only(captured));
  void* const block = from_pool(1_MiB, 0, captured.ref().native());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    bool is_refused = berth_torch_alloc(1_MiB, 0, captured.ref().native()) == nullptr;
    try {
      begin(0, {9, 0}, nullptr);
      is_refused = false;
    } catch (const NotSupported&) {
    }
    to_pool(block, 1_MiB, 0, nullptr);
    berth_torch_record_stream(block, other.ref().native());
    berth_torch_reset();
    end(0, id);
    release(0, id);
    _exit(is_refused ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  to_pool(block, 1_MiB, 0, nullptr);
  end(0, id);
  release(0, id);
}

TEST_CASE_FIXTURE(PoolsTest, "threads allocate while routes come and go") {
  std::vector<std::thread> threads;
  for (unsigned long long thread = 0; thread < 2; ++thread) {
    threads.emplace_back([this, thread] {
      for (int round = 0; round < 50; ++round) {
        begin(0, {20 + thread, 0}, only(captured));
        to_pool(from_pool(1_KiB, 0, captured.ref().native()), 1_KiB, 0, nullptr);
        end(0, {20 + thread, 0});
        release(0, {20 + thread, 0});
      }
    });
    threads.emplace_back([this] {
      for (int round = 0; round < 500; ++round)
        to_pool(from_pool(1_KiB, 0, other.ref().native()), 1_KiB, 0, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  berth_torch_reset();
}

}  // namespace
}  // namespace berth
