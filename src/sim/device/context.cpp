// SPDX-License-Identifier: Apache-2.0
#include "sim/device/context.hpp"

#include <atomic>
#include <bit>
#include <pthread.h>

#include "berth/bytes.hpp"

#include "base/check.hpp"
#include "sim/fork.hpp"
#include "sim/memory/host_memory.hpp"
#include "sim/state.hpp"
#include "sim/work/submission.hpp"

namespace berth::sim {
namespace {

std::uint64_t next_thread_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

pthread_key_t make_thread_end_key() {
  pthread_key_t key;
  const int failure = pthread_key_create(&key, [](void* ending) {
    delete static_cast<ThreadState*>(ending);
    thread_in_use = nullptr;
  });
  BERTH_CHECK(failure == 0);
  return key;
}

pthread_key_t thread_end_key() {
  static const pthread_key_t key = make_thread_end_key();
  return key;
}

/// When the library is loaded: a fork during the first call would leave the child waiting for it.
[[maybe_unused]] const pthread_key_t key_at_load = thread_end_key();

/// Handles of the objects of `table` that belong to `context`.
template <class Table>
std::vector<Handle> owned(Table& table, Handle context) {
  std::vector<Handle> handles;
  table.for_each([&](const auto& object) {
    if (object.context == context) handles.push_back(object.handle);
  });
  return handles;
}

}  // namespace

ThreadState::ThreadState() : id(next_thread_id()) {}

ThreadState::~ThreadState() {
  if (is_parents_driver()) return;
  MutexLock lock(mutex);
  State* state = installed_state();
  if (state != nullptr) state->order.end_thread(id);
  if (state == nullptr || state->id != simulator_id) return;
  state->contexts.for_each([&](Context& context) BERTH_UNDER_LOCK {
    const auto own = context.per_thread_streams.find(id);
    if (own == context.per_thread_streams.end()) return;
    Stream& stream = *state->streams.find(own->second);
    leave_capture(*state, stream);
    state->scheduler.destroy(stream);
    context.per_thread_streams.erase(own);
  });
}

void ThreadState::enter(std::uint64_t simulator) {
  if (simulator_id == simulator) return;
  simulator_id = simulator;
  stack.clear();
  capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
}

ThreadState& make_thread() {
  thread_in_use = new ThreadState;
  BERTH_CHECK(pthread_setspecific(thread_end_key(), thread_in_use) == 0);
  return *thread_in_use;
}

bool are_context_flags(unsigned flags) {
  const unsigned scheduling = flags & CU_CTX_SCHED_MASK;
  const bool one_way = scheduling == 0 || std::has_single_bit(scheduling);
  return (flags & ~unsigned{CU_CTX_FLAGS_MASK}) == 0 && one_way;
}

Context& make_context(State& state, int ordinal) {
  const int slot = state.visible[static_cast<std::size_t>(ordinal)];
  Context& context = state.contexts.create(slot, ordinal);
  Stream& legacy = state.streams.create(context.handle, slot, StreamKind::legacy, 0);
  state.channels.assign(context, legacy);
  context.legacy_stream = legacy.handle;
  // Source: CUDA Programming Guide, "Device-Side Runtime", "Formatted Output", "Heap Memory
  // Allocation"; cuCtxSetLimit.
  context.settings.limits[CU_LIMIT_STACK_SIZE] = 1_KiB;
  context.settings.limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1_MiB;
  context.settings.limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8_MiB;
  context.settings.limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  context.settings.limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
  return context;
}

Context& retain_primary(State& state, int ordinal) {
  Device& device = state.device_at(ordinal);
  ++device.retains;
  if (device.primary != 0) return *state.contexts.find(device.primary);
  Context& context = make_context(state, ordinal);
  context.primary = true;
  context.flags = device.primary_flags;
  device.primary = context.handle;
  return context;
}

bool finish_work(State& state, Handle context) {
  const Awaited work = state.scheduler.work_in(context);
  wait_for(state, state.call, work, context);
  return work.tickets.empty();
}

void destroy_context(State& state, Context& context) {
  const Handle handle = context.handle;
  for (const Handle event : owned(state.events, handle)) state.events.erase(event);
  for (const Handle module : owned(state.modules, handle)) unload(state, module);
  for (const Handle stream : owned(state.streams, handle)) {
    BERTH_CHECK(state.streams.find(stream)->queue.empty());
    leave_capture(state, *state.streams.find(stream));
    state.scheduler.remove(*state.streams.find(stream));
  }
  std::vector<std::uint64_t> starts;
  state.addresses.for_each_range([&](const Range& range) {
    if (range.context == handle) starts.push_back(range.start);
  });
  for (const std::uint64_t start : starts) {
    const Range& range = *state.addresses.find_start(start);
    if (range.is_host())
      unpin_host_memory(state, range);
    else if (range.kind == RangeKind::imported)
      drop_import(state, range);
    else
      state.devices[static_cast<std::size_t>(range.device)].linear.release(state, range);
  }
  state.contexts.erase(handle);
}

}  // namespace berth::sim
