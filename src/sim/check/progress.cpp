// SPDX-License-Identifier: Apache-2.0
#include "sim/check/progress.hpp"

#include <fmt/format.h>

#include "sim/check/names.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

/// What the head of `stream` waits for.
std::string describe_head(State& state, Stream& stream) {
  const Operation& head = stream.queue.front();
  if (const auto* wait = std::get_if<WaitValueWork>(&head.work))
    return fmt::format("which waits for {}", describe(state, stream, *wait));
  return "which has not ended";
}

}  // namespace

void report_shared_channel(State& state, Stream& stream, Stream& waiting) {
  state.findings.add(fmt::format(
      "shared channel: {} on {} stands only behind {} on {} in one of {} hardware channels, {}; "
      "nothing that is pending changes them, and no thread has for {} ms (stall_ms): the stream "
      "has a "
      "channel of its own from now on",
      call_name(stream.queue.front().call), stream_name(stream.callers_handle),
      call_name(waiting.queue.front().call), stream_name(waiting.callers_handle),
      state.channels.count(), describe_head(state, waiting), state.config.stall_ms));
}

void report_full_queue(State& state, const CallSite& call, const Stream& stream, Stream& needed) {
  state.findings.add(fmt::format(
      "full queue: {} on {}, which holds {} operations behind {}, {}; nothing has run for {} ms "
      "(stall_ms): the call fails",
      call_name(call), stream_name(stream.callers_handle), stream.queue.size(),
      call_name(needed.queue.front().call), describe_head(state, needed), state.config.stall_ms));
}

void report_driver_lock(State& state, const CallSite& call, const CallSite& holder) {
  state.findings.add(
      fmt::format("driver lock: {} waits for the lock of its context, which {} of another thread "
                  "holds; nothing "
                  "has run for {} ms (stall_ms): the call goes on without",
                  call_name(call), call_name(holder), state.config.stall_ms));
}

}  // namespace berth::sim
