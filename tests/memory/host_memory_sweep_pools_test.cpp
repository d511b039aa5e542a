// SPDX-License-Identifier: Apache-2.0
// The host runs out of memory at every point of every public function of private pools.
#include <doctest/doctest.h>

#include "memory/host_memory_sweep.hpp"

namespace host_memory_sweep_pools_test {

using namespace berth;
using namespace berth::test;
using namespace berth::test::host_memory_sweep;

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
              [](DeviceWorld& w) { w.pool().set_limits({.bytes_reserved_max = 1_GiB}); }),
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
  for_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
}

TEST_CASE("host_memory_sweep: checkpoints") {
  const auto have_checkpoint = [](DeviceWorld& w) {
    MemoryPool& pool = w.add_pool({.name = "graphs", .for_graphs = true});
    for (int block = 0; block < 3; ++block) w.keep(pool.allocate_raw(2 * kUnit, *w.red));
    pool.deallocate(w.live.at(w.live.size() - 2));
    w.live.erase(w.live.end() - 2);
    void* const joined = pool.allocate_raw(4 * kUnit, *w.red);
    w.checkpoint = pool.checkpoint();
    pool.deallocate(joined);
    pool.deallocate(w.last());
    static_cast<void>(pool.allocate_raw(kUnit, *w.red));
    static_cast<void>(pool.allocate_raw(2 * kUnit, *w.red));
  };
  const std::vector<DeviceOperation> operations = {
      {"checkpoint", [](DeviceWorld& w) { static_cast<void>(w.pool().checkpoint()); },
       Failing::throws, [](DeviceWorld& w) { w.add_pool({.name = "graphs", .for_graphs = true}); }},
      {"restore",
       [](DeviceWorld& w) {
         const RestoredBlocks restored = w.pool().restore(*w.checkpoint);
         for (void* const data : restored.allocated) w.live.push_back(data);
       },
       Failing::throws, have_checkpoint},
  };
  sweep_all(operations, backed_by(true));
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
  for_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
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
         w.memory->set_limits({.bytes_reserved_max = 20 * kUnit});
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
  for_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
}

}  // namespace host_memory_sweep_pools_test
