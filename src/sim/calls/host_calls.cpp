// SPDX-License-Identifier: Apache-2.0
// Events of host threads, reported by the program. See driver/sim_abi.hpp.
#include <utility>

#include "base/mutex.hpp"
#include "sim/device/context.hpp"
#include "sim/fork.hpp"
#include "sim/lock.hpp"
#include "sim/state.hpp"
#include "sim/with_installed.hpp"

namespace berth::sim {
namespace {

/// Calls `tell(state)` if a simulator with race detection is installed.
template <class Tell>
void with_state(const Tell& tell) {
  if (orders_tracked.load(std::memory_order_relaxed) == 0) return;
  with_installed([&](State& state) {
    if (state.order.on()) tell(state);
  });
}

void use(UseKind kind, const void* start, std::size_t bytes) {
  with_state([&](State& state) {
    state.races.use_by_host(state, kind, reinterpret_cast<std::uint64_t>(start), bytes);
  });
}

void observe(const void* word, std::uint64_t value) BERTH_REQUIRES(mutex) {
  State* state = installed_state();
  if (state == nullptr || !state->initialized) return;
  state->scheduler.at_call(Function::count);
  state->races.observe(static_cast<const std::byte*>(word), value);
  state->scheduler.end_call();
}

}  // namespace

void berth_sim_berthSimHostObserves(const void* word, std::uint64_t value) {
  if (is_parents_driver()) return;
  if (orders_tracked.load(std::memory_order_relaxed) == 0) {
    // The device goes on by the thread that is in the driver.
    if (!mutex.try_lock()) return;
    observe(word, value);
    return mutex.unlock();
  }
  MutexLock lock(mutex);
  observe(word, value);
}

const void* berth_sim_berthSimHostActsFor(const void* actor) {
  return std::exchange(this_thread().acts_for, actor);
}

void berth_sim_berthSimHostReleases(const void* object) {
  with_state([&](State& state) { state.order.hosts().release(object); });
}

void berth_sim_berthSimHostAcquires(const void* object) {
  with_state([&](State& state) { state.order.hosts().acquire(object); });
}

void berth_sim_berthSimHostForgets(const void* object) {
  with_state([&](State& state) {
    state.order.forget_objects({static_cast<const std::byte*>(object), 1});
  });
}

void berth_sim_berthSimHostReads(const void* start, std::size_t bytes) {
  use(UseKind::reads, start, bytes);
}

void berth_sim_berthSimHostWrites(const void* start, std::size_t bytes) {
  use(UseKind::writes, start, bytes);
}

void berth_sim_berthSimHostRecycles(const void* start, std::size_t bytes) {
  with_state([&](State& state) {
    state.races.recycle(state, reinterpret_cast<std::uint64_t>(start), bytes);
  });
}

void berth_sim_berthSimHostReuses(const void* start, std::size_t bytes) {
  if (graphs_existing.load(std::memory_order_relaxed) == 0) return;
  with_state([&](State& state) {
    state.races.check_reuse(state, reinterpret_cast<std::uint64_t>(start), bytes);
  });
}

}  // namespace berth::sim
