// SPDX-License-Identifier: Apache-2.0
// Random programs on the device allocator against a naive model, without private pools, and on a
// small device with pools that come and go, sleep and wake, take memory from each other, and serve
// the requests that scopes route to them. Streams run their work in random order, so memory that is
// handed out too early is written by two streams at once; bytes that are overwritten, or lost in a
// pool's sleep, are found by a read.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"

#include "model/pools_model.hpp"
#include "support/reuse_policies.hpp"

namespace device_allocator_model_test {

using namespace berth;
using namespace berth::test;

namespace {

class Program final : public PoolsModel {
 public:
  using PoolsModel::PoolsModel;

  void step() {
    remember_reserved();
    static constexpr Operation<Program> kOperations[] = {
        {2, "use elsewhere", &Program::use_elsewhere},
        {1, "write elsewhere", &Program::write_elsewhere},
        {1, "wait", &Program::wait},
        {1, "create a pool", &Program::create_pool},
        {1, "change handles", &Program::change_handles},
        {1, "begin a scope", &Program::begin_scope},
        {1, "end a scope", &Program::end_some_scope},
        {1, "sleep or wake", &Program::sleep_or_wake},
        {1, "rarely", &Program::rarely},
        {1, "refuse", &Program::refuse},
        {1, "run a graph", &Program::run_graph},
        {1, "record the own stream", &Program::record_own_stream},
        {27, "allocate or free", &Program::allocate_or_free},
    };
    do_one_of(kOperations);
    if (random_.one_in(150)) filling_ = !filling_;
    verify_finished_readings();
    check();
  }

  void finish() {
    while (!scopes_.empty()) end_some_scope();
    while (!live_.empty()) free_block();
    settle_all();
    for (const PoolPointer& pool : pools_) pool->handles.clear();
    memory_.set_limits({});
    memory_.trim();
    CHECK(memory_.pool_snapshots().empty());
    CHECK(memory_.counters().bytes_reserved.current == 0);
    CHECK(simulation_.simulator.device_bytes_used(0) == 0);
    CHECK(allocations_ > 0);
  }

 private:
  void wait() { some_stream()->ref.sync(); }
  void create_pool() {
    if (!machine_.has_pools) return;
    if (std::ranges::count_if(pools_, &PoolModel::is_open) >= std::ptrdiff_t(kPoolsMax)) return;
    auto pool = std::make_shared<PoolModel>();
    pool->name = random_.below(2) == 0 ? "red" : "blue";
    pool->for_graphs = random_.one_in(4);
    if (random_.one_in(4)) pool->limit = (1 + random_.below(16)) * kGranuleBytes;
    MemoryPoolOptions options{.name = pool->name, .for_graphs = pool->for_graphs};
    options.limits.bytes_reserved_max = pool->limit;
    if (random_.one_in(4))
      options.limits.bytes_reserved_soft_max = random_.below(machine_.device_bytes);
    pool->handles.push_back(memory_.create_pool(options));
    pools_.push_back(std::move(pool));
  }

  void change_handles() {
    const PoolPointer pool = some_pool();
    if (!pool) return;
    if (random_.below(3) == 0) {
      pool->handles.push_back(MemoryPool(pool->handles.back()));
    } else if (pool->handles.size() > 1 || random_.below(2) == 0) {
      pool->handles.erase(pool->handles.begin() +
                          std::ptrdiff_t(random_.below(pool->handles.size())));
    }
  }

  void begin_scope() {
    const PoolPointer pool = some_pool();
    if (!pool || pool->for_graphs || scopes_.size() > 3) return;
    const MemoryPool& handle = pool->handles.front();
    Scope scope{.scope = nullptr, .pool = pool, .stream = nullptr};
    if (random_.below(2) == 0) {
      scope.stream = some_stream();
      scope.scope = std::make_unique<PoolScope>(PoolScope::on_stream(handle, scope.stream->ref));
    } else {
      scope.of_second_thread = random_.below(2) == 0;
      run(scope.of_second_thread,
          [&] { scope.scope = std::make_unique<PoolScope>(PoolScope::on_this_thread(handle)); });
    }
    if (random_.one_in(3)) scope.scope = std::make_unique<PoolScope>(std::move(*scope.scope));
    ++pool->scopes;
    scopes_.push_back(std::move(scope));
  }
  void end_some_scope() {
    if (!scopes_.empty()) end_scope(random_.below(scopes_.size()));
  }
  void end_scope(std::size_t index) {
    Scope scope = std::move(scopes_[index]);
    scopes_.erase(scopes_.begin() + std::ptrdiff_t(index));
    run(random_.one_in(3), [&] { scope.scope.reset(); });
    --scope.pool->scopes;
  }
  /// Drifts between a nearly full and a nearly empty device.
  void allocate_or_free() {
    if (random_.below(100) < (filling_ ? 75U : 35U)) {
      allocate();
    } else {
      free_block();
    }
  }
  void allocate() {
    const std::size_t bytes = random_.one_in(50) ? 0 : random_.size_up_to(kRequestMax);
    const StreamPointer stream = some_stream();
    const bool on_second = random_.one_in(4);
    PoolPointer pool = random_.below(3) == 0 ? some_pool() : nullptr;
    if (pool && pool->for_graphs) pool = nullptr;
    std::optional<Result<Allocation>> result;
    const bool direct = pool != nullptr;
    if (!pool) pool = pool_of_request(stream, on_second);
    const bool must_fit = fits_for_certain(bytes, *pool);
    run(on_second, [&] {
      result.emplace(direct ? pool->handles.back().try_allocate(bytes, stream->ref)
                            : memory_.try_allocate(bytes, stream->ref));
    });
    if (!*result) {
      const Errc code = result->error().code();
      if (pool->is_asleep) {
        CHECK(code == Errc::invalid_argument);
        return;
      }
      CHECK(code == Errc::out_of_memory);
      CHECK_FALSE(must_fit);
      ++failures_;
      filling_ = false;
      return;
    }
    Allocation memory = std::move(*result).value();
    CHECK(memory.bytes() == bytes);
    CHECK(bool(memory) == (bytes > 0));
    if (bytes == 0) return;
    CHECK_FALSE(pool->is_asleep);
    if (!pool->is_device && !pool->handles.empty())
      CHECK(pool->handles.front().owns(memory.data()));
    const unsigned char value = random_.byte();
    runtime_.copier().fill_async(memory.data(), value, bytes, stream->ref);
    add(std::move(memory), pool, stream, value);
  }
  void free_block() {
    if (live_.empty()) return;
    std::swap(some_block(), live_.back());
    LiveBlock block = std::move(live_.back());
    live_.pop_back();
    if (is_readable(block)) read_at_the_end(block, *block.value);
    run(random_.one_in(4), [&] {
      switch (random_.below(3)) {
        case 0:
          memory_.deallocate(block.memory.release());
          break;
        case 1:
          if (!block.pool->handles.empty()) {
            block.pool->handles.front().deallocate(block.memory.release());
            break;
          }
          [[fallthrough]];
        default:
          block.memory.reset();
      }
    });
    ++frees_;
  }

  /// Another stream reads a block; the block may be freed before it gets there.
  void use_elsewhere() {
    if (live_.empty()) return;
    const LiveBlock& block = some_block();
    if (!is_readable(block)) return;
    const StreamPointer user = some_stream();
    wait_for_block(block, *user);
    read(block, *block.value, *user);
  }

  /// Another stream writes a block, and the block's own stream waits for it.
  void write_elsewhere() {
    if (live_.empty()) return;
    LiveBlock& block = some_block();
    if (block.last_work || !is_usable(block)) return;
    const StreamPointer user = some_stream();
    wait_for_block(block, *user);
    wait_for_readings(user->ref);
    block.value = random_.byte();
    runtime_.copier().fill_async(block.memory.data(), *block.value, block.memory.bytes(),
                                 user->ref);
    record(block.memory, user->ref);
    block.stream->ref.wait(runtime_.record(user->ref));
  }
  void record_own_stream() {
    if (live_.empty()) return;
    const LiveBlock& block = some_block();
    if (!block.last_work && is_usable(block)) record(block.memory, block.stream->ref);
  }
  void fall_asleep(PoolModel& pool, SleepContent content) {
    if (pool.is_asleep) return;
    pool.is_asleep = true;
    pool.forgets = content == SleepContent::discard;
  }
  void awake(PoolModel& pool) {
    if (!pool.is_asleep) return;
    pool.is_asleep = false;
    for (LiveBlock& block : live_) {
      if (block.pool.get() == &pool && pool.forgets) block.value.reset();
    }
  }
  void sleep_or_wake() {
    const PoolPointer pool = some_pool();
    if (!pool) return;
    const SleepContent content = random_.below(2) == 0 ? SleepContent::discard : SleepContent::keep;
    const bool by_name = random_.one_in(3);
    std::vector<PoolPointer> meant;
    for (const PoolPointer& other : pools_) {
      if (other == pool || (by_name && other->name == pool->name && other->is_open()))
        meant.push_back(other);
    }
    if (!machine_.virtual_memory) {
      CHECK_THROWS_AS(
          by_name ? memory_.sleep(pool->name, content) : pool->handles.front().sleep(content),
          NotSupported);
      CHECK_FALSE(pool->handles.front().is_asleep());
      return;
    }
    if (random_.below(2) == 0) {
      const std::uint64_t used = simulation_.simulator.device_bytes_used(0);
      const std::size_t returned =
          by_name ? memory_.sleep(pool->name, content) : pool->handles.front().sleep(content);
      CHECK(used - simulation_.simulator.device_bytes_used(0) == returned);
      for (const PoolPointer& other : meant) fall_asleep(*other, content);
    } else {
      bool failed = false;
      try {
        by_name ? memory_.wake(pool->name) : pool->handles.back().wake();
      } catch (const OutOfMemory&) {
        failed = true;
      }
      for (const PoolPointer& other : meant) {
        // Where waking by name failed, those before the one that failed are awake.
        if (!other->handles.empty() ? !other->handles.front().is_asleep() : !failed) awake(*other);
      }
      if (failed) CHECK(pool->limit.has_value() + limit_.has_value() + live_.size() > 0);
    }
  }

  /// Captures work in memory of a pool for graphs, launches it, and keeps some of the memory.
  void run_graph() {
    const PoolPointer pool = some_pool();
    if (!pool || !pool->for_graphs || pool->is_asleep) return;
    const StreamPointer stream = some_stream();
    {
      const DeviceGuard guard(runtime_.devices(), kDevice);
      REQUIRE(sim::berth_sim_cuStreamBeginCapture(
                  stream->ref.native(), random_.below(2) == 0
                                            ? CU_STREAM_CAPTURE_MODE_GLOBAL
                                            : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
    }
    std::vector<std::pair<Allocation, unsigned char>> blocks;
    for (std::size_t round = 0; round < 4; ++round) {
      const std::size_t bytes = random_.size_up_to(kRequestMax);
      Result<Allocation> block = pool->handles.front().try_allocate(bytes, stream->ref);
      if (!block) {
        CHECK(block.error().code() == Errc::out_of_memory);
        break;
      }
      const unsigned char value = random_.byte();
      const DeviceGuard guard(runtime_.devices(), kDevice);
      REQUIRE(sim::berth_sim_cuMemsetD8Async(CUdeviceptr{address_of(block.value().data())}, value,
                                             bytes, stream->ref.native()) == CUDA_SUCCESS);
      if (random_.below(2) == 0) blocks.emplace_back(std::move(block).value(), value);
    }
    // Others go on meanwhile.
    const StreamPointer other = some_stream();
    if (other != stream) {
      static_cast<void>(memory_.try_allocate(random_.size_up_to(kRequestMax), other->ref));
    }
    launch(*pool, *stream);
    for (auto& [memory, value] : blocks) add(std::move(memory), pool, stream, value);
  }
  void launch(PoolModel& pool, const ProgramStream& stream) {
    const DeviceGuard guard(runtime_.devices(), kDevice);
    CUgraph graph = nullptr;
    REQUIRE(sim::berth_sim_cuStreamEndCapture(stream.ref.native(), &graph) == CUDA_SUCCESS);
    CUgraphExec exec = nullptr;
    REQUIRE(sim::berth_sim_cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    REQUIRE(sim::berth_sim_cuGraphDestroy(graph) == CUDA_SUCCESS);
    // Graphs that share a pool are launched one after the other, and behind whoever reads.
    if (pool.last_launch) stream.ref.wait(*pool.last_launch);
    wait_for_readings(stream.ref);
    REQUIRE(sim::berth_sim_cuGraphLaunch(exec, stream.ref.native()) == CUDA_SUCCESS);
    REQUIRE(sim::berth_sim_cuGraphExecDestroy(exec) == CUDA_SUCCESS);
    pool.last_launch = runtime_.record(stream.ref);
  }

  void rarely() {
    static constexpr Operation<Program> kOperations[] = {
        {1, "replace a stream", &Program::replace_some_stream},
        {1, "trim", &Program::trim},
        {1, "trim a part", &Program::trim_part},
        {1, "change a limit", &Program::change_limit},
        {1, "trim a pool", &Program::trim_pool},
        {1, "release what is unused", &Program::release_unused},
        {1, "release what a pool does not use", &Program::release_unused_of_pool},
        {1, "reset the peaks", &Program::reset_peaks},
        {1, "run all work", &Program::run_all},
    };
    do_one_of(kOperations);
  }
  void trim() {
    give_back([&] { return memory_.trim(); });
    check_trimmed();
  }
  void trim_part() {
    give_back([&] { return memory_.trim(random_.below(machine_.device_bytes)); });
  }
  void trim_pool() {
    if (const PoolPointer pool = some_pool())
      give_back([&] { return pool->handles.back().trim(random_.below(2) * 4_MiB); });
  }
  void release_unused() {
    give_back([&] { return memory_.release_unused(std::chrono::hours(random_.below(2) * 24)); });
  }
  void release_unused_of_pool() {
    if (const PoolPointer pool = some_pool())
      give_back([&] { return pool->handles.back().release_unused({}); });
  }
  void reset_peaks() { memory_.reset_peaks(); }
  void run_all() { simulation_.simulator.run_all(); }
  /// What an operation says it gave back is what the device has more.
  template <class Action>
  void give_back(const Action& action) {
    const std::uint64_t used = simulation_.simulator.device_bytes_used(0);
    const std::size_t returned = action();
    CHECK(used - simulation_.simulator.device_bytes_used(0) == returned);
  }
  void replace_some_stream() {
    const std::size_t index = random_.below(streams_.size());
    for (std::size_t scope = scopes_.size(); scope-- > 0;) {
      if (scopes_[scope].stream == streams_[index]) end_scope(scope);
    }
    replace_stream(index, live_);
  }

  void change_limit() {
    const PoolPointer pool = random_.below(2) == 0 ? some_pool() : nullptr;
    std::optional<std::size_t>& limit = pool ? pool->limit : limit_;
    limit.reset();
    MemoryLimits limits;
    if (random_.below(2) == 0) {
      limit = machine_.device_bytes / 4 + random_.below(machine_.device_bytes * 3 / 4);
      limits.bytes_reserved_max = *limit;
    }
    if (random_.below(2) == 0) {
      limits.bytes_reserved_soft_max = MemoryAmount::part_of_device(double(random_.below(10)) / 10);
    }
    if (pool) {
      pool->handles.front().set_limits(limits);
    } else {
      memory_.set_limits(limits);
    }
  }

  void refuse() {
    refuse_wrong_pool();
    refuse_unknown_pointers();
  }
  void refuse_wrong_pool() {
    const PoolPointer pool = some_pool();
    if (live_.empty() || !pool) return;
    const LiveBlock& block = some_block();
    if (block.pool == pool) return;
    MemoryPool& wrong = pool->handles.front();
    CHECK_THROWS_AS(wrong.deallocate(block.memory.data()), InvalidArgument);
    CHECK_THROWS_AS(wrong.record_stream(block.memory.data(), streams_[0]->ref), InvalidArgument);
    CHECK_THROWS_AS(wrong.record_use(block.memory.data(), streams_[0]->ref), InvalidArgument);
    CHECK_FALSE(wrong.owns(block.memory.data()));
  }
  void refuse_unknown_pointers() {
    int on_stack = 0;
    CHECK_THROWS_AS(memory_.deallocate(&on_stack), InvalidArgument);
    if (live_.empty()) return;
    const Allocation& block = some_block().memory;
    void* const inside = static_cast<char*>(block.data()) + 1 + random_.below(block.bytes());
    void* const before = static_cast<char*>(block.data()) - 1;
    CHECK_THROWS_AS(memory_.record_stream(before, streams_[0]->ref), InvalidArgument);
    CHECK_THROWS_AS(memory_.record_use(before, streams_[0]->ref), InvalidArgument);
    const bool is_next_block = std::ranges::any_of(
        live_, [inside](const LiveBlock& other) { return other.memory.data() == inside; });
    if (!is_next_block) CHECK_THROWS_AS(memory_.deallocate(inside), InvalidArgument);
  }
};

constexpr Machine kWithoutPools{96_MiB, false, true, CrossStreamReuse::behind_waits};
constexpr Machine kWithPools{40_MiB, true, true, CrossStreamReuse::behind_waits};

std::uint64_t run_program(std::uint64_t seed, const Machine& machine, std::uint64_t count) {
  Program program(seed, machine);
  run_to_the_end(program, count);
  return program.order_hash();
}

void run_programs(Machine machine) {
  for_each_seed([&](std::uint64_t seed) {
    for (const bool virtual_memory : {true, false}) {
      CAPTURE(virtual_memory);
      machine.virtual_memory = virtual_memory;
      with_each_reuse([&](CrossStreamReuse reuse) {
        machine.reuse = reuse;
        run_program(seed, machine, operations(1500));
      });
    }
  });
}

}  // namespace

TEST_CASE("a random program never shares memory, loses bytes or breaks a sum") {
  run_programs(kWithoutPools);
}

TEST_CASE("a random program with pools never shares memory, loses bytes or breaks a limit") {
  run_programs(kWithPools);
}

TEST_CASE("the same seed gives the same run") {
  const std::uint64_t seed = first_seed();
  CAPTURE(seed);
  for (const Machine& machine : {kWithoutPools, kWithPools}) {
    CAPTURE(machine.has_pools);
    const auto run = [&](std::uint64_t of) { return run_program(of, machine, 300); };
    CHECK(run(seed) == run(seed));
    CHECK(run(seed) != run(seed + 1));
  }
}

}  // namespace device_allocator_model_test
