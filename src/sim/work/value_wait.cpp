// SPDX-License-Identifier: Apache-2.0
#include "sim/work/value_wait.hpp"

#include "base/format.hpp"
#include "sim/check/names.hpp"
#include "sim/state.hpp"
#include "sim/work/work_memory.hpp"

namespace berth::sim {
namespace {

/// One access, so that a value that another thread writes is seen whole.
std::uint64_t load_value(const std::byte* source, unsigned bytes) {
  if (bytes == sizeof(std::uint32_t))
    return __atomic_load_n(reinterpret_cast<const std::uint32_t*>(source), __ATOMIC_ACQUIRE);
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(source), __ATOMIC_ACQUIRE);
}

// Source: CUDA Driver API, CUstreamWaitValue_flags.
bool satisfies(std::uint64_t found, const WaitValueWork& wait) {
  const bool is_short = wait.bytes == sizeof(std::uint32_t);
  switch (wait.condition) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return found == wait.value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (found & wait.value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return (is_short ? static_cast<std::uint32_t>(~(found | wait.value))
                       : ~(found | wait.value)) != 0;
    default:  // cyclic: the difference is not negative
      return is_short ? static_cast<std::int32_t>(found - wait.value) >= 0
                      : static_cast<std::int64_t>(found - wait.value) >= 0;
  }
}

const char* name_of(unsigned condition) {
  switch (condition) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return "be";
    case CU_STREAM_WAIT_VALUE_AND:
      return "share a bit with";
    case CU_STREAM_WAIT_VALUE_NOR:
      return "leave a bit clear beside";
    default:
      return "reach";
  }
}

}  // namespace

bool value_is_there(State& state, const Context& context, const WaitValueWork& wait) {
  if (context.sticky != CUDA_SUCCESS) return true;
  if (wait.event != nullptr) return wait.event->done() >= wait.value;
  const std::byte* source = locate(state, context, wait.address, wait.bytes, Access::read);
  return source == nullptr || satisfies(load_value(source, wait.bytes), wait);
}

void store_value(std::byte* target, std::uint64_t value, unsigned bytes) {
  if (bytes == sizeof(std::uint32_t))
    __atomic_store_n(reinterpret_cast<std::uint32_t*>(target), static_cast<std::uint32_t>(value),
                     __ATOMIC_RELEASE);
  else
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(target), value, __ATOMIC_RELEASE);
}

std::string describe(State& state, const Stream& stream, const WaitValueWork& wait) {
  if (wait.event != nullptr)
    return format_text("record {} of an interprocess event, {} of which are done", wait.value,
                       wait.event->done());
  const Context& context = *state.contexts.find(stream.context);
  const std::byte* source = locate(state, context, wait.address, wait.bytes, Access::read);
  const std::string now =
      source == nullptr ? "gone" : std::to_string(load_value(source, wait.bytes));
  return format_text("the {} bits at {:#x}, now {}, to {} {}", wait.bytes * 8, wait.address, now,
                     name_of(wait.condition), wait.value);
}

void fail_wait(State& state, const Stream& stream, const WaitValueWork& wait) {
  Context& context = *state.contexts.find(stream.context);
  if (value_is_there(state, context, wait)) return;
  const CallSite& call = stream.queue.front().call;
  std::vector<FindingUse> uses;
  if (call.stack != nullptr) uses.push_back({short_name(call), "waits", 0, call.stack});
  state.findings.add(
      {format_text("stall: {} waits for {}; nothing that is pending changes them, and no thread "
                   "has for {} ms (stall_ms): the context fails",
                   stream_name(stream.caller_handle), describe(state, stream, wait),
                   state.config.stall_ms),
       std::move(uses)});
  context.sticky = CUDA_ERROR_LAUNCH_TIMEOUT;
}

bool Stall::lasts(bool holds, std::uint64_t steps, int limit_ms) {
  const Clock::time_point now = Clock::now();
  if (!holds || !holding_ || steps != steps_) since_ = now;
  holding_ = holds;
  steps_ = steps;
  return holds && now - since_ >= std::chrono::milliseconds(limit_ms);
}

bool Stall::lasts_while_polled(std::uint64_t steps, int limit_ms) {
  const Clock::time_point now = Clock::now();
  const bool goes_on = now - asked_ < std::chrono::milliseconds(limit_ms) / 2;
  asked_ = now;
  if (!goes_on) holding_ = false;
  return lasts(true, steps, limit_ms);
}

void ValueWatch::start() {
  if (stopping_) return;
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  wake_.notify_one();
}

void ValueWatch::stop() {
  {
    MutexLock lock(mutex);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ValueWatch::loop() {
  PollInterval interval;
  MutexLock lock(mutex);
  while (!stopping_) {
    if (scheduler_.value_waits() == 0) {
      wake_.wait(mutex);
      continue;
    }
    scheduler_.end_call();
    wake_.wait_for(mutex, interval.next(scheduler_.steps()));
  }
}

}  // namespace berth::sim
