// SPDX-License-Identifier: Apache-2.0
// The host runs out of memory at every point of every public function of device memory.
#include "memory/host_memory_sweep.hpp"

#include <doctest/doctest.h>

namespace host_memory_sweep_test {

using namespace berth;
using namespace berth::test;
using namespace berth::test::host_memory_sweep;

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
         w.memory->set_limits({.bytes_reserved_soft_max = w.simulator.device_bytes_used(0)});
       }},
  };
  for_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
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
  for_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
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
  for_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
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
              [](DeviceWorld& w) { w.memory->set_limits({.bytes_reserved_max = 1_GiB}); }),
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
  for_each_backing([&](const DeviceAllocatorOptions& options) { sweep_all(operations, options); });
  const DeviceOperation make = {"a DeviceAllocator", [](DeviceWorld& w) {
                                  DeviceAllocatorOptions options;
                                  options.release_unused_after = 1h;
                                  DeviceAllocator made(w.context, w.events, options);
                                }};
  sweep(make, DeviceAllocatorOptions{});
}

}  // namespace host_memory_sweep_test
