// SPDX-License-Identifier: Apache-2.0
// The host runs out of memory at every point of every public function of pinned memory.
#include <atomic>
#include <thread>

#include <doctest/doctest.h>

#include "berth/host_allocator.hpp"

#include "memory/host_memory_sweep.hpp"

namespace host_memory_sweep_pinned_test {

using namespace berth;
using namespace berth::test;
using namespace berth::test::host_memory_sweep;

namespace {

/// Memory that a test registers: whole pages, which nothing else is in.
struct alignas(4096) Pages {
  std::array<std::byte, 64_KiB> bytes;
};

sim::Config machine_of_two_nodes() {
  sim::Config config = device_of_small_granules();
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

  /// Work of green is captured from now on.
  void capture() {
    const ContextScope scope(context);
    driver.stream_begin_capture(green->ref().native(), CU_STREAM_CAPTURE_MODE_GLOBAL);
    is_captured = true;
  }
  /// The graph is gone afterwards, and the allocator knows.
  void drop_graph() {
    const ContextScope scope(context);
    CUgraph graph = nullptr;
    is_captured = false;
    driver.stream_end_capture(green->ref().native(), &graph);
    driver.graph_destroy(graph);
    if (memory) {
      while (memory->counters().blocks_in_graphs.current > 0) std::this_thread::yield();
    } else {
      wait_for_destructors();
    }
  }
  /// A simulator that ends drops those that have not run. They run one after the other.
  void wait_for_destructors() {
    std::atomic<bool> has_run = false;
    const auto run = [](void* data) { *static_cast<std::atomic<bool>*>(data) = true; };
    CUuserObject last = nullptr;
    driver.user_object_create(&last, static_cast<void*>(&has_run), static_cast<CUhostFn>(run), 1U,
                              unsigned{CU_USER_OBJECT_NO_DESTRUCTOR_SYNC});
    driver.user_object_release_or_report(last, 1U);
    while (!has_run) std::this_thread::yield();
  }

  void register_pages() { registration = memory->register_memory(&pages, sizeof pages); }

  void check() const {
    if (memory) check_whole(*memory);
  }

  /// Frees all: nothing is left in the driver then.
  void end() {
    if (is_captured) drop_graph();
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
  bool is_captured = false;
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
  PinnedAllocatorOptions limited{.bytes_reserved_max = 3_MiB, .segment_bytes = 1_MiB};
  limited.slack_max = 0.05;
  sweep_all(std::vector{waits, runs_out}, limited);
  const PinnedOperation over_cache = {"deallocate beyond what may be cached", free, Failing::never};
  sweep(over_cache, PinnedAllocatorOptions{.bytes_cached_max = 64_KiB, .segment_bytes = 64_KiB});
  const PinnedOperation ahead = {"with a thread that grows", [](PinnedWorld& w) {
                                   keep(w, w.memory->allocate(400_KiB));
                                   w.memory->finish_background_work();
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

TEST_CASE("host_memory_sweep: graphs that use pinned memory") {
  const auto capture = [](PinnedWorld& w) { w.capture(); };
  const auto keep_last = [](PinnedWorld& w) {
    w.capture();
    w.memory->keep_for_graph(w.live.back(), *w.green);
  };
  const std::vector<PinnedOperation> operations = {
      {"keep_for_graph", [](PinnedWorld& w) { w.memory->keep_for_graph(w.live.back(), *w.green); },
       Failing::throws, capture},
      {"keep_for_graph, once more",
       [](PinnedWorld& w) { w.memory->keep_for_graph(w.live.back(), *w.green); }, Failing::throws,
       keep_last},
      {"record_use", [](PinnedWorld& w) { w.memory->record_use(w.live.back(), *w.green); },
       Failing::throws, capture},
      {"deallocate", [](PinnedWorld& w) { w.memory->deallocate(w.last()); }, Failing::never,
       keep_last},
      {"the end before the graph's", [](PinnedWorld& w) { w.memory.reset(); }, Failing::never,
       [=](PinnedWorld& w) {
         keep_last(w);
         w.registration.reset();
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
      {"finish_background_work", [](PinnedWorld& w) { w.memory->finish_background_work(); }},
  };
  with_each_source([&](const PinnedAllocatorOptions& options) { sweep_all(operations, options); });
}

/// With each call of operator new failing in the constructor. The devices' contexts check at their
/// end that they are observed by nothing.
template <class Allocator, class Options>
void construct(const Options& options) {
  bool failed = true;
  for (std::size_t granted = 0; failed && granted < kCallsMax; ++granted) {
    Machine machine(machine_of_two_nodes());
    std::optional<Allocator> allocator;
    const Attempt made = attempt(granted, 1, [&] { allocator.emplace(machine.registry, options); });
    failed = made.failed;
    CHECK(made.is_known);
    CHECK(allocator.has_value() == !failed);
    allocator.reset();
    machine.destroy_foreign();
  }
  CHECK_FALSE(failed);
}

TEST_CASE("host_memory_sweep: creating the allocators of host memory") {
  construct<PinnedAllocator>(PinnedAllocatorOptions{});
  construct<HostAllocator>(HostAllocatorOptions{});
}

}  // namespace host_memory_sweep_pinned_test
