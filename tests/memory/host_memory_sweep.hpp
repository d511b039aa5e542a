// SPDX-License-Identifier: Apache-2.0
// Runs functions with each call of operator new failing that berth makes there, alone or with all
// that follow it, in worlds of a simulated machine.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/device_allocator.hpp"
#include "berth/device_registry.hpp"
#include "berth/event_pool.hpp"
#include "berth/pinned_allocator.hpp"

#include "device/device_context.hpp"
#include "driver/driver.hpp"
#include "driver/nvml.hpp"
#include "sim/functions.hpp"
#include "sim/simulator.hpp"
#include "support/allocator_checks.hpp"
#include "support/reports.hpp"
#include "support/scarce_memory.hpp"
#include "support/thinned.hpp"
#include "support/work_log.hpp"

namespace berth::test::host_memory_sweep {

using namespace std::chrono_literals;

/// Far more than any function makes: a sweep that goes on for ever is to end.
inline constexpr std::size_t kCallsMax = 400;

// The simulated driver, for which memory is never scarce: it is no part of berth, and real ones say
// CUDA_ERROR_OUT_OF_MEMORY, which other tests have them say.

template <DriverCall call, class Function>
struct Plentiful;
template <DriverCall call, class... Args>
struct Plentiful<call, CUresult (*)(Args...)> {
  static inline CUresult (*simulated)(Args...) = nullptr;
  static CUresult run(Args... args) {
    const PlentifulMemory plentiful;
    return simulated(args...);
  }
};

template <DriverCall call, class Function>
void* with_memory(void* simulated) {
  using Call = Plentiful<call, Function>;
  Call::simulated = reinterpret_cast<Function>(simulated);
  return simulated == nullptr ? nullptr : reinterpret_cast<void*>(&Call::run);
}

inline void* find_function(const char* symbol, int) {
#define BERTH_WITH_MEMORY(member, name, version, need) \
  if (std::strcmp(symbol, #name) == 0)                 \
    return with_memory<DriverCall::member, decltype(&::name)>(sim::resolve(symbol));
  BERTH_DRIVER_FUNCTIONS(BERTH_WITH_MEMORY)
#undef BERTH_WITH_MEMORY
  return sim::resolve(symbol);
}

inline DriverSource source() {
  return {.name = "sim", .resolve = &find_function, .problem = {}, .library = {}};
}

/// What is under the allocators, with streams: two of berth's with memory, one without, and one
/// that berth does not own.
struct Machine {
  explicit Machine(const sim::Config& config) : simulator(config) {
    live.reserve(64);  // what is noted in a sweep must not be lost
    for (auto* stream : {&red, &blue, &green}) stream->emplace(context, StreamOptions{});
    const ContextScope scope(context);
    driver.stream_create_with_priority(&foreign_handle, unsigned{CU_STREAM_NON_BLOCKING}, 0);
  }

  [[nodiscard]] StreamRef foreign() { return {context, foreign_handle}; }
  void destroy_foreign() {
    const ContextScope scope(context);
    driver.stream_destroy(std::exchange(foreign_handle, nullptr));
  }
  void run_stream(StreamRef stream) {
    const ContextScope scope(context);
    while (simulator.run_next(stream.native())) continue;
  }
  void* keep(void* data) {
    live.push_back(data);
    return data;
  }
  /// The block that was kept last, which is kept no longer.
  void* last() {
    void* const data = live.back();
    live.pop_back();
    return data;
  }

  struct NothingLeft {
    const sim::Simulator& simulator;
    ~NothingLeft() {
      for (const std::string& left : simulator.live_list()) FAIL_CHECK("left alive: ", left);
    }
  };

  Reports reports;
  WorkLog log;
  sim::Simulator simulator;
  NothingLeft nothing_left{simulator};
  Driver driver{source(), reports.sink()};
  Nvml nvml{source()};
  DeviceRegistry registry{driver, nvml};
  DeviceContext& context = registry.context(Device::cuda(0));
  EventPool events{context};
  std::optional<Stream> red;
  std::optional<Stream> blue;
  std::optional<Stream> green;
  CUstream foreign_handle = nullptr;
  std::vector<void*> live;
};

enum class Failing {
  throws,   ///< a failed call is made again
  reports,  ///< never throws, but may have done less, which the next call makes up for
  never,
};

template <class World>
struct Operation {
  std::string name;
  std::function<void(World&)> run;
  Failing failing = Failing::throws;
  std::function<void(World&)> prepare = nullptr;
};

struct Attempt {
  bool failed = false;
  bool is_known = true;  ///< the exception, if any, is one that berth's functions may throw
  std::size_t calls = 0;
};

template <class Run>
Attempt attempt(std::size_t granted, std::size_t refused, const Run& run) {
  Attempt attempt;
  const ScarceMemory scarce(granted, refused);
  try {
    run();
  } catch (const std::bad_alloc&) {
    attempt.failed = true;
  } catch (const Error&) {
    attempt.failed = true;
  } catch (...) {
    attempt = {.failed = true, .is_known = false};
  }
  attempt.calls = scarce.calls();
  return attempt;
}

/// Runs the operation with its first, its second and each further call of operator new failing,
/// alone and with all that follow it, until it gets through. What has failed in one of the two ways
/// is tried in the other one in the same world, which the first failure is to have left whole; then
/// it is to succeed.
template <class World, class Options>
void sweep(const Operation<World>& operation, const Options& options) {
  CAPTURE(operation.name);
  const Thinned thinned(3);
  bool is_last = false;
  for (std::size_t granted = 0; !is_last; granted += std::size_t(thinned.step())) {
    CAPTURE(granted);
    REQUIRE(granted < kCallsMax);
    std::array<std::size_t, 2> refusals{1, ScarceMemory::kUnlimited};
    if (granted % 2 == 1) std::ranges::reverse(refusals);
    std::optional<World> world;
    for (const std::size_t refused : refusals) {
      CAPTURE(refused);
      const bool is_fresh = !world;
      if (is_fresh) {
        world.emplace(options);
        if (operation.prepare) operation.prepare(*world);
      }
      const auto run = [&] { operation.run(*world); };
      const Attempt tried = attempt(granted, refused, run);
      REQUIRE(tried.is_known);
      world->check();
      const bool got_through = tried.calls <= granted;
      is_last = is_last || (is_fresh && got_through);
      if (got_through || operation.failing != Failing::throws) REQUIRE_FALSE(tried.failed);
      if (tried.failed && refused != refusals.back()) continue;
      const std::size_t errors = world->reports.count(Severity::error);
      if (tried.failed || (!got_through && operation.failing == Failing::reports)) {
        REQUIRE_NOTHROW(run());
        world->check();
      }
      world->end();
      REQUIRE(world->reports.count(Severity::error) == errors);
      world.reset();
      if (is_last) break;
    }
  }
}

template <class World, class Options>
void sweep_all(const std::vector<Operation<World>>& operations, const Options& options) {
  for (const Operation<World>& operation : operations) {
    sweep(operation, options);
  }
}

/// Half a granule. Far smaller than on real devices, because a sweep makes thousands of worlds.
inline constexpr std::size_t kUnit = 128_KiB;

inline sim::Config device_of_small_granules() {
  sim::Config config;
  config.memory = {64 * kUnit};
  config.granularity = 2 * kUnit;
  config.poison = false;
  config.progress = sim::Progress::manual;
  return config;
}

inline void check_snapshot(const MemorySnapshot& snapshot) {
  for (const std::string& line : find_discrepancies(snapshot)) FAIL(line);
}

struct DeviceWorld : Machine {
  explicit DeviceWorld(const DeviceAllocatorOptions& options)
      : Machine(device_of_small_granules()) {
    memory.emplace(context, events, options);
    pools.reserve(8);
    scopes.reserve(8);
    // Holes between what is live.
    std::vector<void*> row;
    for (int index = 0; index < 6; ++index) row.push_back(memory->allocate_raw(2 * kUnit, *red));
    for (std::size_t index = 0; index < row.size(); ++index) {
      if (index % 2 == 1) {
        memory->deallocate(row[index]);
      } else {
        keep(row[index]);
      }
    }
    keep(memory->allocate_raw(512, *red));
    memory->deallocate(memory->allocate_raw(1_KiB, *red));
    // Memory that waits for its own stream, for another one, and for one that berth does not own.
    memory->deallocate(memory->allocate_raw(3 * kUnit, *blue));
    memory->deallocate(memory->allocate_raw(kUnit, foreign()));
    void* const recorded = memory->allocate_raw(64_KiB, *red);
    memory->record_stream(recorded, *blue);
    void* const lent = memory->allocate_raw(64_KiB, *red);
    memory->record_stream(lent, foreign());
    log.submit(*blue, "blue");
    log.submit(foreign(), "foreign");
    void* const marked = memory->allocate_raw(64_KiB, *red);
    memory->record_use(marked, *blue);
    for (void* data : {recorded, lent, marked}) memory->deallocate(data);
  }
  ~DeviceWorld() {
    if (memory) end();  // where the test has failed
  }

  MemoryPool& add_pool(MemoryPoolOptions options = {.name = "weights"}) {
    MemoryPool& pool = pools.emplace_back(memory->create_pool(options));
    keep(pool.allocate_raw(kUnit, *red));
    pool.deallocate(pool.allocate_raw(2 * kUnit, *blue));
    void* const recorded = pool.allocate_raw(64_KiB, *red);
    pool.record_stream(recorded, *blue);
    pool.deallocate(recorded);
    return pool;
  }
  MemoryPool& pool() { return pools.front(); }
  /// A pool for graphs, and a stream that is captured, which berth has met.
  void capture() {
    add_pool({.name = "graphs", .for_graphs = true});
    {
      const ContextScope scope(context);
      driver.stream_begin_capture(green->ref().native(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    }
    is_captured = true;
    live.insert(live.begin(), pool().allocate_raw(1_KiB, *green));
  }
  void end_capture() {
    const ContextScope scope(context);
    CUgraph graph = nullptr;
    is_captured = false;
    CHECK(driver.try_stream_end_capture(green->ref().native(), &graph) == CUDA_SUCCESS);
    if (graph != nullptr) driver.graph_destroy(graph);
  }
  /// No more memory than there is.
  void be_short() { memory->set_limits({.bytes_reserved_max = simulator.device_bytes_used(0)}); }

  void check() const {
    if (!memory) return;
    check_whole(*memory);
    for (const MemorySnapshot& snapshot : memory->pool_snapshots()) check_snapshot(snapshot);
  }

  /// Frees all: nothing is left in the driver then.
  void end() {
    if (is_captured) end_capture();
    if (memory) {
      for (void* data : std::exchange(live, {})) memory->deallocate(data);
      scopes.clear();
      pools.clear();
      if (foreign_handle != nullptr) memory->retire_stream(foreign());
      for (int times = 0; times < 2; ++times) {  // what has no mark yet gets one by the first trim
        simulator.run_all();
        memory->trim();
      }
      check();
      CHECK(memory->pool_snapshots().empty());
      CHECK(memory->counters().bytes_active.current == 0);
      CHECK(memory->counters().bytes_reserved.current == 0);
      CHECK(simulator.device_bytes_used(0) == 0);
      memory.reset();
    }
    if (foreign_handle != nullptr) destroy_foreign();
    simulator.run_all();
    CHECK(simulator.device_bytes_used(0) == 0);
  }

  bool is_captured = false;
  std::optional<DeviceAllocator> memory;
  std::vector<MemoryPool> pools;
  std::vector<PoolScope> scopes;
  std::optional<PoolCheckpoint> checkpoint{};
};

using DeviceOperation = Operation<DeviceWorld>;

inline DeviceAllocatorOptions backed_by(bool virtual_memory) {
  DeviceAllocatorOptions options;
  options.virtual_memory = virtual_memory;
  options.segment_bytes = 16 * kUnit;
  return options;
}

template <class Test>
void for_each_backing(const Test& test) {
  for (const bool virtual_memory : {true, false}) {
    CAPTURE(virtual_memory);
    test(backed_by(virtual_memory));
  }
}

/// For an Allocation in a sweep.
inline void keep(DeviceWorld& world, Allocation allocation) {
  world.keep(allocation.release());
}

}  // namespace berth::test::host_memory_sweep
