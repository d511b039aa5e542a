// SPDX-License-Identifier: Apache-2.0
// The host's memory ends at every point of every public function of the memory classes: each call
// of operator new that berth makes there fails, alone or with all that follow it.
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
#include "support/work_log.hpp"

namespace host_memory_sweep_test {

using namespace berth;
using namespace berth::test;
using namespace std::chrono_literals;

namespace {

/// Far more than any function makes: a sweep that goes on for ever is to end.
constexpr std::size_t kCallsMax = 400;

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

void* find_function(const char* symbol, int) {
#define BERTH_WITH_MEMORY(member, name, version, need) \
  if (std::strcmp(symbol, #name) == 0)                 \
    return with_memory<DriverCall::member, decltype(&::name)>(sim::resolve(symbol));
  BERTH_DRIVER_FUNCTIONS(BERTH_WITH_MEMORY)
#undef BERTH_WITH_MEMORY
  return sim::resolve(symbol);
}

DriverSource source() {
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
  bool is_last = false;
  for (std::size_t granted = 0; !is_last; ++granted) {
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

// Device memory.

/// Half a granule. Far smaller than on real devices, because a sweep makes thousands of worlds.
constexpr std::size_t kUnit = 128_KiB;

sim::Config small_device() {
  sim::Config config;
  config.memory = {64 * kUnit};
  config.granularity = 2 * kUnit;
  config.poison = false;
  config.progress = sim::Progress::manual;
  return config;
}

void check_snapshot(const MemorySnapshot& snapshot) {
  for (const std::string& line : find_discrepancies(snapshot)) FAIL(line);
}

struct DeviceWorld : Machine {
  explicit DeviceWorld(const DeviceAllocatorOptions& options) : Machine(small_device()) {
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
  void be_short() { memory->set_limits({.reserved_bytes_max = simulator.device_bytes_used(0)}); }

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
};

using DeviceOperation = Operation<DeviceWorld>;

DeviceAllocatorOptions backed_by(bool virtual_memory) {
  DeviceAllocatorOptions options;
  options.virtual_memory = virtual_memory;
  options.segment_bytes = 16 * kUnit;
  return options;
}

template <class Test>
void with_each_backing(const Test& test) {
  for (const bool virtual_memory : {true, false}) {
    CAPTURE(virtual_memory);
    test(backed_by(virtual_memory));
  }
}

/// For an Allocation in a sweep.
void keep(DeviceWorld& world, Allocation allocation) {
  world.keep(allocation.release());
}

}  // namespace

TEST_CASE("host_memory_sweep: allocating device memory") {
  const std::vector<DeviceOperation> operations = {
      {"a small block", [](DeviceWorld& w) { w.keep(w.memory->allocate_raw(2_KiB, *w.red)); }},
      {"a new stream", [](DeviceWorld& w) { w.keep(w.memory->allocate_raw(2_KiB, *w.green)); }},
      {"a joined block", [](DeviceWorld& w) { w.keep(w.memory->allocate_raw(5 * kUnit, *w.red)); }},
      {"a fresh block", [](DeviceWorld& w) { keep(w, w.memory->allocate(24 * kUnit, *w.red)); }},
      {"a fresh block of a new stream",
       [](DeviceWorld& w) { keep(w, w.memory->allocate(24 * kUnit, *w.green)); }},
      {"a foreign stream",
       [](DeviceWorld& w) { keep(w, w.memory->allocate(3 * kUnit, w.foreign())); }},
      {"try_allocate",
       [](DeviceWorld& w) { keep(w, w.memory->try_allocate(5 * kUnit, *w.red).value()); }},
      {"above a soft limit", [](DeviceWorld& w) { keep(w, w.memory->allocate(9 * kUnit, *w.red)); },
       Failing::throws,
       [](DeviceWorld& w) {
         w.add_pool();
         w.memory->set_limits({.reserved_bytes_soft_max = w.simulator.device_bytes_used(0)});
       }},
  };
  with_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
}

TEST_CASE("host_memory_sweep: allocating device memory where it is short") {
  const auto allocate = [](std::size_t bytes) {
    return [bytes](DeviceWorld& w) { keep(w, w.memory->allocate(bytes, *w.green)); };
  };
  const auto be_short = [](DeviceWorld& w) { w.be_short(); };
  const auto be_short_and_idle = [](DeviceWorld& w) {
    w.be_short();
    w.run_stream(*w.blue);
  };
  const auto have_pools = [](DeviceWorld& w) {
    w.add_pool();
    w.be_short();
  };
  std::vector<DeviceOperation> operations = {
      {"memory of idle streams", allocate(3 * kUnit), Failing::throws, be_short_and_idle},
      {"memory of busy streams", allocate(3 * kUnit), Failing::throws, be_short},
      {"memory of several streams", allocate(3 * kUnit + kUnit / 2), Failing::throws, be_short},
  };
  sweep_all(operations, backed_by(false));
  operations.push_back({"memory of other pools", allocate(4 * kUnit), Failing::throws, have_pools});
  DeviceAllocatorOptions options;
  for (const CrossStreamReuse reuse : {CrossStreamReuse::never, CrossStreamReuse::behind_waits}) {
    CAPTURE(static_cast<int>(reuse));
    options.cross_stream_reuse = reuse;
    sweep_all(operations, options);
  }

  const DeviceOperation all_rungs = {"more than there is",
                                     [](DeviceWorld& w) {
                                       try {
                                         keep(w, w.memory->allocate(20 * kUnit, *w.green));
                                       } catch (const OutOfMemory&) {  // which is to be expected
                                       }
                                     },
                                     Failing::throws, have_pools};
  options.headroom_bytes = kUnit;
  options.on_pressure = [](std::size_t) { return true; };
  sweep(all_rungs, options);
}

TEST_CASE("host_memory_sweep: freeing and recording device memory") {
  const auto free = [](DeviceWorld& w) { w.memory->deallocate(w.last()); };
  const auto owned = [](DeviceWorld& w) { return Allocation(*w.memory, w.last(), 1); };
  const std::vector<DeviceOperation> operations = {
      {"deallocate", free, Failing::never},
      {"deallocate a large block", free, Failing::never,
       [](DeviceWorld& w) { w.keep(w.memory->allocate_raw(9 * kUnit, *w.blue)); }},
      {"deallocate what is recorded", free, Failing::never,
       [](DeviceWorld& w) {
         w.memory->record_stream(w.live.back(), *w.blue);
         w.memory->record_stream(w.live.back(), *w.green);
       }},
      {"deallocate what a foreign stream uses", free, Failing::never,
       [](DeviceWorld& w) { w.memory->record_stream(w.live.back(), w.foreign()); }},
      {"deallocate what was used", free, Failing::never,
       [](DeviceWorld& w) { w.memory->record_use(w.live.back(), *w.blue); }},
      {"deallocate a pool's", free, Failing::never, [](DeviceWorld& w) { w.add_pool(); }},
      {"deallocate of a stream that is gone", free, Failing::never,
       [](DeviceWorld& w) {
         w.keep(w.memory->allocate_raw(2 * kUnit, *w.green));
         w.green.reset();
       }},
      {"Allocation::reset", [=](DeviceWorld& w) { owned(w).reset(); }, Failing::never},
      {"Allocation::operator=",
       [=](DeviceWorld& w) {
         Allocation allocation = owned(w);
         allocation = owned(w);
       },
       Failing::never,
       [](DeviceWorld& w) {
         w.add_pool();
         w.memory->record_stream(w.live.back(), *w.blue);
       }},
      {"record_stream", [](DeviceWorld& w) { w.memory->record_stream(w.live.back(), *w.blue); }},
      {"record_stream, new",
       [](DeviceWorld& w) { w.memory->record_stream(w.live.back(), *w.green); }},
      {"record_stream, foreign",
       [](DeviceWorld& w) { w.memory->record_stream(w.live.back(), w.foreign()); }},
      {"record_use", [](DeviceWorld& w) { w.memory->record_use(w.live.back(), *w.blue); }},
      {"record_use, new", [](DeviceWorld& w) { w.memory->record_use(w.live.back(), *w.green); }},
      {"record_use, foreign",
       [](DeviceWorld& w) { w.memory->record_use(w.live.back(), w.foreign()); }},
      {"record_stream of a pool's",
       [](DeviceWorld& w) { w.memory->record_stream(w.live.back(), *w.green); }, Failing::throws,
       [](DeviceWorld& w) { w.add_pool(); }},
      {"record_use of a pool's",
       [](DeviceWorld& w) { w.memory->record_use(w.live.back(), *w.green); }, Failing::throws,
       [](DeviceWorld& w) { w.add_pool(); }},
      {"Allocation::record_stream",
       [](DeviceWorld& w) {
         Allocation allocation(*w.memory, w.live.back(), 1);
         try {
           allocation.record_stream(*w.green);
           allocation.record_use(*w.blue);
         } catch (...) {
           static_cast<void>(allocation.release());
           throw;
         }
         static_cast<void>(allocation.release());
       }},
  };
  with_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
}

TEST_CASE("host_memory_sweep: streams that go away") {
  const auto use_green = [](DeviceWorld& w) {
    w.memory->deallocate(w.memory->allocate_raw(2 * kUnit, *w.green));
    w.memory->record_stream(w.live.back(), *w.green);
    w.add_pool().deallocate(w.pool().allocate_raw(2 * kUnit, *w.green));
    w.log.submit(*w.green, "green");
  };
  const std::vector<DeviceOperation> operations = {
      {"a stream of berth's", [](DeviceWorld& w) { w.green.reset(); }, Failing::never, use_green},
      {"with memory that waits", [](DeviceWorld& w) { w.blue.reset(); }, Failing::never, use_green},
      {"retire_stream", [](DeviceWorld& w) { w.memory->retire_stream(*w.green); }, Failing::reports,
       use_green},
      {"retire_stream, foreign",
       [](DeviceWorld& w) {
         w.memory->retire_stream(w.foreign());
         if (w.foreign_handle != nullptr) w.destroy_foreign();
       },
       Failing::never},
      {"the last of very many", [](DeviceWorld& w) { w.green.reset(); }, Failing::never,
       [](DeviceWorld& w) {
         for (int count = 0; count < 14; ++count) {
           const Stream stream(w.context, {});
           w.memory->deallocate(w.memory->allocate_raw(512, stream));
         }
         w.memory->deallocate(w.memory->allocate_raw(512, *w.green));
       }},
  };
  with_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
}

TEST_CASE("host_memory_sweep: giving device memory back, and looking at it") {
  const auto have_pools = [](DeviceWorld& w) {
    w.add_pool();
    w.add_pool();
    w.pools.pop_back();  // closed, with a live block
  };
  const auto looking = [&](const char* name, void (*look)(DeviceWorld&)) {
    return DeviceOperation{name, look, Failing::throws, have_pools};
  };
  const std::vector<DeviceOperation> operations = {
      {"trim", [](DeviceWorld& w) { w.memory->trim(); }},
      {"trim of all pools", [](DeviceWorld& w) { w.memory->trim(); }, Failing::throws, have_pools},
      {"trim to some bytes", [](DeviceWorld& w) { w.memory->trim(12 * kUnit); }},
      {"trim in a lull", [](DeviceWorld& w) { w.memory->trim(); }, Failing::throws,
       [](DeviceWorld& w) { w.simulator.run_all(); }},
      {"release_unused", [](DeviceWorld& w) { w.memory->release_unused(0ns); }, Failing::throws,
       have_pools},
      {"release_unused in a lull", [](DeviceWorld& w) { w.memory->release_unused(0ns); },
       Failing::throws, [](DeviceWorld& w) { w.simulator.run_all(); }},
      looking("release_unused, long", [](DeviceWorld& w) { w.memory->release_unused(1h); }),
      looking("set_limits",
              [](DeviceWorld& w) { w.memory->set_limits({.reserved_bytes_max = 1_GiB}); }),
      {"owns",
       [](DeviceWorld& w) {
         static_cast<void>(w.memory->owns(w.live.back()));
         static_cast<void>(w.memory->is_for_graphs(w.live.back()));
         static_cast<void>(w.pool().owns(w.live.back()));
       },
       Failing::never, have_pools},
      looking("counters", [](DeviceWorld& w) { static_cast<void>(w.memory->counters()); }),
      looking("reset_peaks", [](DeviceWorld& w) { w.memory->reset_peaks(); }),
      looking("snapshot", [](DeviceWorld& w) { static_cast<void>(w.memory->snapshot()); }),
      looking("pool_snapshots",
              [](DeviceWorld& w) { static_cast<void>(w.memory->pool_snapshots()); }),
      looking("validate", [](DeviceWorld& w) { w.memory->validate(); }),
      {"the end", [](DeviceWorld& w) { w.memory.reset(); }, Failing::never,
       [](DeviceWorld& w) {
         w.add_pool();
         w.pools.clear();
         w.live.clear();
       }},
  };
  with_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
  const DeviceOperation make = {"a DeviceAllocator", [](DeviceWorld& w) {
                                  DeviceAllocatorOptions options;
                                  options.release_unused_after = 1h;
                                  DeviceAllocator made(w.context, w.events, options);
                                }};
  sweep(make, DeviceAllocatorOptions{});
}

TEST_CASE("host_memory_sweep: private pools") {
  const auto have_pool = [](DeviceWorld& w) { w.add_pool(); };
  const auto in_pool = [&](const char* name, void (*run)(DeviceWorld&)) {
    return DeviceOperation{name, run, Failing::throws, have_pool};
  };
  const std::vector<DeviceOperation> operations = {
      {"create_pool",
       [](DeviceWorld& w) {
         w.pools.push_back(w.memory->create_pool({.name = "a name that is no small string"}));
       }},
      {"create_pool for graphs",
       [](DeviceWorld& w) {
         w.pools.push_back(w.memory->create_pool({.name = "graphs", .for_graphs = true}));
       },
       Failing::throws,
       [](DeviceWorld& w) {
         w.add_pool();
         w.pools.clear();
       }},
      in_pool("allocate", [](DeviceWorld& w) { keep(w, w.pool().allocate(5 * kUnit, *w.red)); }),
      in_pool("allocate_raw",
              [](DeviceWorld& w) { w.keep(w.pool().allocate_raw(2_KiB, *w.green)); }),
      in_pool("try_allocate",
              [](DeviceWorld& w) { keep(w, w.pool().try_allocate(2 * kUnit, *w.green).value()); }),
      {"allocate for graphs", [](DeviceWorld& w) { keep(w, w.pool().allocate(5 * kUnit, *w.red)); },
       Failing::throws, [](DeviceWorld& w) { w.add_pool({.name = "graphs", .for_graphs = true}); }},
      {"deallocate", [](DeviceWorld& w) { w.pool().deallocate(w.last()); }, Failing::never,
       [](DeviceWorld& w) {
         w.add_pool();
         w.pool().record_stream(w.live.back(), *w.blue);
       }},
      in_pool("record_stream",
              [](DeviceWorld& w) { w.pool().record_stream(w.live.back(), *w.green); }),
      in_pool("record_use", [](DeviceWorld& w) { w.pool().record_use(w.live.back(), *w.green); }),
      in_pool("trim", [](DeviceWorld& w) { w.pool().trim(); }),
      in_pool("release_unused", [](DeviceWorld& w) { w.pool().release_unused(0ns); }),
      in_pool("release_unused, long", [](DeviceWorld& w) { w.pool().release_unused(1h); }),
      in_pool("set_limits",
              [](DeviceWorld& w) { w.pool().set_limits({.reserved_bytes_max = 1_GiB}); }),
      in_pool("counters", [](DeviceWorld& w) { static_cast<void>(w.pool().counters()); }),
      in_pool("reset_peaks", [](DeviceWorld& w) { w.pool().reset_peaks(); }),
      in_pool("snapshot", [](DeviceWorld& w) { static_cast<void>(w.pool().snapshot()); }),
      in_pool("validate", [](DeviceWorld& w) { w.pool().validate(); }),
      {"retire_stream", [](DeviceWorld& w) { w.pool().retire_stream(*w.blue); }, Failing::reports,
       have_pool},
      {"name",
       [](DeviceWorld& w) {
         static_cast<void>(w.pool().name());
         static_cast<void>(w.pool().is_asleep());
         const MemoryPool copy = w.pool();
       },
       Failing::never, have_pool},
      {"close with a live block", [](DeviceWorld& w) { w.pools.clear(); }, Failing::never,
       have_pool},
      {"close", [](DeviceWorld& w) { w.pools.clear(); }, Failing::never,
       [](DeviceWorld& w) { w.add_pool().deallocate(w.last()); }},
  };
  with_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
}

TEST_CASE("host_memory_sweep: while a stream is captured") {
  const auto capture = [](DeviceWorld& w) { w.capture(); };
  const auto capture_use = [](DeviceWorld& w) {
    w.capture();
    w.memory->record_stream(w.live.back(), *w.green);
  };
  const std::vector<DeviceOperation> operations = {
      {"allocate", [](DeviceWorld& w) { keep(w, w.pool().allocate(5 * kUnit, *w.green)); },
       Failing::throws, capture},
      {"record_stream", [](DeviceWorld& w) { w.pool().record_stream(w.live.back(), *w.green); },
       Failing::throws, capture},
      {"record_use", [](DeviceWorld& w) { w.pool().record_use(w.live.back(), *w.green); },
       Failing::throws, capture},
      {"deallocate", [](DeviceWorld& w) { w.memory->deallocate(w.last()); }, Failing::never,
       capture_use},
      {"trim", [](DeviceWorld& w) { w.memory->trim(); }, Failing::throws, capture_use},
      {"release_unused", [](DeviceWorld& w) { w.memory->release_unused(0ns); }, Failing::throws,
       capture_use},
  };
  with_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
}

TEST_CASE("host_memory_sweep: sleep and wake") {
  const auto have_two = [](DeviceWorld& w) {
    w.add_pool();
    w.add_pool();
    for (MemoryPool& pool : w.pools) {
      w.keep(pool.allocate_raw(3 * kUnit, *w.red));  // so that there are windows
    }
  };
  const auto put_to_sleep = [=](DeviceWorld& w) {
    have_two(w);
    w.memory->sleep("weights", SleepContent::keep);
  };
  const std::vector<DeviceOperation> operations = {
      {"a pool sleeps", [](DeviceWorld& w) { w.pool().sleep(); }, Failing::throws, have_two},
      {"a pool sleeps with its content", [](DeviceWorld& w) { w.pool().sleep(SleepContent::keep); },
       Failing::throws, have_two},
      {"a pool wakes", [](DeviceWorld& w) { w.pool().wake(); }, Failing::throws, put_to_sleep},
      {"all sleep", [](DeviceWorld& w) { w.memory->sleep("weights"); }, Failing::throws, have_two},
      {"all sleep with their content",
       [](DeviceWorld& w) { w.memory->sleep("weights", SleepContent::keep); }, Failing::throws,
       have_two},
      {"all wake", [](DeviceWorld& w) { w.memory->wake("weights"); }, Failing::throws,
       put_to_sleep},
      {"wake where memory is short",
       [](DeviceWorld& w) {
         try {
           w.memory->wake("weights");
         } catch (const OutOfMemory&) {  // which is what is expected
         }
       },
       Failing::throws,
       [=](DeviceWorld& w) {
         put_to_sleep(w);
         w.memory->set_limits({.reserved_bytes_max = 20 * kUnit});
       }},
      {"close asleep", [](DeviceWorld& w) { w.pools.clear(); }, Failing::never, put_to_sleep},
      {"trim asleep", [](DeviceWorld& w) { w.memory->trim(); }, Failing::throws, put_to_sleep},
      {"deallocate asleep", [](DeviceWorld& w) { w.memory->deallocate(w.last()); }, Failing::never,
       put_to_sleep},
  };
  sweep_all(operations, DeviceAllocatorOptions{});
}

TEST_CASE("host_memory_sweep: scopes") {
  const auto in_scope = [](DeviceWorld& w) {
    w.add_pool();
    w.scopes.push_back(PoolScope::on_this_thread(w.pool()));
  };
  const std::vector<DeviceOperation> operations = {
      {"on_this_thread",
       [](DeviceWorld& w) { w.scopes.push_back(PoolScope::on_this_thread(w.pool())); },
       Failing::throws, [](DeviceWorld& w) { w.add_pool(); }},
      {"on_stream",
       [](DeviceWorld& w) { w.scopes.push_back(PoolScope::on_stream(w.pool(), *w.red)); },
       Failing::throws, [](DeviceWorld& w) { w.add_pool(); }},
      {"allocate", [](DeviceWorld& w) { keep(w, w.memory->allocate(5 * kUnit, *w.green)); },
       Failing::throws, in_scope},
      {"try_allocate",
       [](DeviceWorld& w) { keep(w, w.memory->try_allocate(5 * kUnit, *w.red).value()); },
       Failing::throws, in_scope},
      {"the end", [](DeviceWorld& w) { w.scopes.clear(); }, Failing::never, in_scope},
      {"the end, which closes the pool", [](DeviceWorld& w) { w.scopes.clear(); }, Failing::never,
       [=](DeviceWorld& w) {
         in_scope(w);
         w.pools.clear();
       }},
      {"the end of the stream", [](DeviceWorld& w) { w.red.reset(); }, Failing::never,
       [=](DeviceWorld& w) {
         in_scope(w);
         w.scopes.push_back(PoolScope::on_stream(w.pool(), *w.red));
       }},
  };
  with_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
}

namespace {

// Pinned memory.

/// Memory that a test registers: whole pages, which nothing else is in.
struct alignas(4096) Pages {
  std::array<std::byte, 64_KiB> bytes;
};

sim::Config machine_of_two_nodes() {
  sim::Config config = small_device();
  config.devices = 2;
  config.numa = {0, 1};
  return config;
}

struct PinnedWorld : Machine {
  explicit PinnedWorld(const PinnedAllocatorOptions& options) : Machine(machine_of_two_nodes()) {
    memory.emplace(registry, options);
    keep(memory->allocate_raw(4_KiB));
    keep(memory->allocate_raw(1_MiB));
    memory->deallocate(memory->allocate_raw(200_KiB));
    memory->deallocate(memory->allocate_raw(2_KiB));
    register_pages();
    void* const recorded = memory->allocate_raw(300_KiB);
    memory->record_stream(recorded, *blue);
    void* const lent = memory->allocate_raw(8_KiB);
    memory->record_stream(lent, foreign());
    log.submit(*blue, "blue");
    log.submit(foreign(), "foreign");
    void* const marked = memory->allocate_raw(64_KiB);
    memory->record_use(marked, *blue);
    for (void* data : {recorded, lent, marked}) memory->deallocate(data);
  }
  ~PinnedWorld() {
    if (memory) end();  // where the test has failed
  }

  void register_pages() { registration = memory->register_memory(&pages, sizeof pages); }

  void check() const {
    if (memory) check_whole(*memory);
  }

  /// Frees all: nothing is left in the driver then.
  void end() {
    if (memory) {
      for (void* data : std::exchange(live, {})) memory->deallocate(data);
      if (foreign_handle != nullptr) memory->retire_stream(foreign());
      registration.reset();
      for (int times = 0; times < 2; ++times) {  // what has no mark yet gets one by the first trim
        simulator.run_all();
        memory->trim();
      }
      check();
      CHECK(memory->bytes_registered() == 0);
      CHECK(memory->counters().bytes_active.current == 0);
      CHECK(memory->counters().bytes_reserved.current == 0);
      CHECK(simulator.live().host_allocations == 0);
      CHECK(simulator.live().host_registrations == 0);
      memory.reset();
    }
    if (foreign_handle != nullptr) destroy_foreign();
    simulator.run_all();
    CHECK(simulator.live().host_allocations == 0);
    CHECK(simulator.live().host_registrations == 0);
  }

  static inline Pages pages;
  static inline Pages more_pages;
  std::optional<PinnedAllocator> memory;
  HostRegistration registration;
};

using PinnedOperation = Operation<PinnedWorld>;

/// Where the segments come from: the driver, or pages that several threads touch and that are
/// registered.
template <class Test>
void with_each_source(const Test& test) {
  for (const unsigned threads : {0U, 2U}) {
    CAPTURE(threads);
    test(PinnedAllocatorOptions{.segment_bytes = 1_MiB, .prefault_threads = threads});
  }
}

void keep(PinnedWorld& world, Allocation allocation) {
  world.keep(allocation.release());
}

}  // namespace

TEST_CASE("host_memory_sweep: allocating and freeing pinned memory") {
  const auto free = [](PinnedWorld& w) { w.memory->deallocate(w.last()); };
  const std::vector<PinnedOperation> operations = {
      {"a small block", [](PinnedWorld& w) { w.keep(w.memory->allocate_raw(3_KiB)); }},
      {"a segment of its own", [](PinnedWorld& w) { keep(w, w.memory->allocate(3_MiB)); }},
      {"a shared segment", [](PinnedWorld& w) { keep(w, w.memory->allocate(400_KiB)); }},
      {"near another device",
       [](PinnedWorld& w) { keep(w, w.memory->allocate(64_KiB, {.near = Device::cuda(1)})); }},
      {"write-combined",
       [](PinnedWorld& w) {
         keep(w, w.memory->allocate(64_KiB, {.kind = PinnedKind::write_combined}));
       }},
      {"try_allocate", [](PinnedWorld& w) { keep(w, w.memory->try_allocate(3_MiB).value()); }},
      {"try_allocate with options",
       [](PinnedWorld& w) {
         keep(w, w.memory->try_allocate(3_MiB, {.near = Device::cuda(1)}).value());
       }},
      {"deallocate", free, Failing::never},
      {"deallocate what is recorded", free, Failing::never,
       [](PinnedWorld& w) {
         w.memory->record_stream(w.live.back(), *w.red);
         w.memory->record_use(w.live.back(), *w.blue);
         w.memory->record_stream(w.live.back(), w.foreign());
       }},
      {"deallocate of the other heap", free, Failing::never,
       [](PinnedWorld& w) { w.keep(w.memory->allocate_raw(3_MiB, {.near = Device::cuda(1)})); }},
  };
  with_each_source([&](const PinnedAllocatorOptions& options) { sweep_all(operations, options); });
  const PinnedOperation waits = {"up to the limit",
                                 [](PinnedWorld& w) { keep(w, w.memory->allocate(700_KiB)); }};
  const PinnedOperation runs_out = {"beyond the limit", [](PinnedWorld& w) {
                                      try {
                                        keep(w, w.memory->allocate(3_MiB));
                                      } catch (const OutOfMemory&) {  // which is what is expected
                                      }
                                    }};
  PinnedAllocatorOptions limited{.reserved_bytes_max = 3_MiB, .segment_bytes = 1_MiB};
  limited.slack_max = 0.05;
  sweep_all(std::vector{waits, runs_out}, limited);
  const PinnedOperation over_cache = {"deallocate beyond what may be cached", free, Failing::never};
  sweep(over_cache, PinnedAllocatorOptions{.cached_bytes_max = 64_KiB, .segment_bytes = 64_KiB});
  const PinnedOperation ahead = {"with a thread that grows", [](PinnedWorld& w) {
                                   keep(w, w.memory->allocate(400_KiB));
                                   w.memory->finish_growth();
                                 }};
  sweep(ahead, PinnedAllocatorOptions{.segment_bytes = 64_KiB, .low_water_bytes = 64_KiB});
}

TEST_CASE("host_memory_sweep: streams that use pinned memory, and registered memory") {
  const auto use = [](PinnedWorld& w) {
    w.memory->record_stream(w.live.back(), *w.blue);
    w.registration.record_stream(*w.blue);
    w.registration.record_stream(w.foreign());
    w.registration.record_use(*w.green);
  };
  const std::vector<PinnedOperation> operations = {
      {"record_stream", [](PinnedWorld& w) { w.memory->record_stream(w.live.back(), *w.green); }},
      {"record_stream, foreign",
       [](PinnedWorld& w) { w.memory->record_stream(w.live.back(), w.foreign()); }},
      {"record_use", [](PinnedWorld& w) { w.memory->record_use(w.live.back(), *w.green); }},
      {"record_stream of pages", [](PinnedWorld& w) { w.registration.record_stream(*w.blue); }},
      {"record_use of pages", [](PinnedWorld& w) { w.registration.record_use(*w.blue); }},
      {"retire_stream", [](PinnedWorld& w) { w.memory->retire_stream(*w.blue); }, Failing::reports,
       use},
      {"retire_stream, foreign",
       [](PinnedWorld& w) {
         w.memory->retire_stream(w.foreign());
         if (w.foreign_handle != nullptr) w.destroy_foreign();
       },
       Failing::never, use},
      {"a stream of berth's", [](PinnedWorld& w) { w.blue.reset(); }, Failing::never, use},
      {"register_memory",
       [](PinnedWorld& w) {
         const HostRegistration made =
             w.memory->register_memory(&w.more_pages, sizeof w.more_pages);
       }},
      {"try_register_memory",
       [](PinnedWorld& w) {
         w.registration =
             std::move(w.memory->try_register_memory(&w.more_pages, sizeof w.more_pages).value());
       }},
      {"unregister", [](PinnedWorld& w) { w.memory->unregister(&w.pages); }, Failing::throws,
       [=](PinnedWorld& w) {
         use(w);
         static_cast<void>(w.registration.release());
       }},
      {"HostRegistration::reset", [](PinnedWorld& w) { w.registration.reset(); }, Failing::never,
       use},
      {"the end", [](PinnedWorld& w) { w.memory.reset(); }, Failing::never,
       [](PinnedWorld& w) {
         w.registration.reset();
         w.live.clear();
       }},
      {"the end, with registered memory", [](PinnedWorld& w) { w.memory.reset(); }, Failing::never,
       [=](PinnedWorld& w) {
         use(w);
         static_cast<void>(w.registration.release());
         w.live.clear();
       }},
  };
  with_each_source([&](const PinnedAllocatorOptions& options) { sweep_all(operations, options); });
}

TEST_CASE("host_memory_sweep: giving pinned memory back, and looking at it") {
  const std::vector<PinnedOperation> operations = {
      {"a PinnedAllocator",
       [](PinnedWorld& w) { const PinnedAllocator made(w.registry, PinnedAllocatorOptions{}); }},
      {"trim", [](PinnedWorld& w) { w.memory->trim(); }},
      {"trim to some bytes", [](PinnedWorld& w) { w.memory->trim(2_MiB); }},
      {"trim in a lull", [](PinnedWorld& w) { w.memory->trim(); }, Failing::throws,
       [](PinnedWorld& w) {
         w.memory->deallocate(w.last());
         w.simulator.run_all();
       }},
      {"release_unused", [](PinnedWorld& w) { w.memory->release_unused(0ns); }},
      {"release_unused, long", [](PinnedWorld& w) { w.memory->release_unused(1h); }},
      {"find_block",
       [](PinnedWorld& w) {
         for (void* data : {static_cast<void*>(&w.pages), w.live.back()}) {
           static_cast<void>(w.memory->find_block(data));
           static_cast<void>(w.memory->owns(data));
         }
       },
       Failing::never},
      {"find", [](PinnedWorld& w) { static_cast<void>(w.memory->find(w.live.back())); }},
      {"counters",
       [](PinnedWorld& w) {
         static_cast<void>(w.memory->counters());
         static_cast<void>(w.memory->growth_counters());
         static_cast<void>(w.memory->bytes_registered());
       }},
      {"reset_peaks", [](PinnedWorld& w) { w.memory->reset_peaks(); }},
      {"snapshot", [](PinnedWorld& w) { static_cast<void>(w.memory->snapshot()); }},
      {"validate", [](PinnedWorld& w) { w.memory->validate(); }},
      {"finish_growth", [](PinnedWorld& w) { w.memory->finish_growth(); }},
  };
  with_each_source([&](const PinnedAllocatorOptions& options) { sweep_all(operations, options); });
}

}  // namespace host_memory_sweep_test
