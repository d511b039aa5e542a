// SPDX-License-Identifier: Apache-2.0
#include "sim/check/progress.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "sim/check/names.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

/// What keeps the function of the program at the head of `stream` from its end. One thread runs all
/// host functions.
std::string describe_function(State& state, const Stream& stream) {
  if (stream.computing) return "whose stand-in has not returned";
  const Stream* first = state.streams.find(state.scheduler.running_function());
  if (first == nullptr || first == &stream) return "whose host function has not returned";
  return format_text("whose host function waits for that of {} on {}, which has not returned",
                     call_name(first->queue.front().call), stream_name(first->caller_handle));
}

/// What the head of `stream` waits for.
std::string describe_head(State& state, Stream& stream) {
  const Operation& head = stream.queue.front();
  if (const auto* wait = std::get_if<WaitValueWork>(&head.work)) {
    const Stream* running = state.streams.find(state.scheduler.running_function());
    const std::string value = format_text("which waits for {}", describe(state, stream, *wait));
    if (running == nullptr) return value;
    return format_text("{}, while {} on {} has not returned", value,
                       call_name(running->queue.front().call), stream_name(running->caller_handle));
  }
  if (stream.computing || (stream.running && std::holds_alternative<HostFunctionWork>(head.work)))
    return describe_function(state, stream);
  return "which has not ended";
}

/// The calls that a finding is about, as far as their call sites are known.
void add_finding(State& state, std::string text, std::vector<FindingUse> uses) {
  std::erase_if(uses, [](const FindingUse& use) { return use.stack == nullptr; });
  state.findings.add({std::move(text), std::move(uses)});
}

FindingUse head_of(const Stream& stream, std::string_view does) {
  const CallSite& call = stream.queue.front().call;
  return {short_name(call), does, 0, call.stack};
}

/// The call of this thread.
FindingUse caller(State& state, std::string call, std::string_view does = "waits") {
  return {std::move(call), does, 0, state.stacks.here()};
}

}  // namespace

void report_shared_channel(State& state, Stream& stream, Stream& waiting) {
  const bool is_at_value = std::holds_alternative<WaitValueWork>(waiting.queue.front().work);
  const std::string text = format_text(
      "shared channel: {} on {} stands only behind {} on {} in one of {} hardware channels, {}; {} "
      "for {} ms (stall_ms): the stream has a channel of its own from now on",
      call_name(stream.queue.front().call), stream_name(stream.caller_handle),
      call_name(waiting.queue.front().call), stream_name(waiting.caller_handle),
      state.channels.count(), describe_head(state, waiting),
      is_at_value ? "nothing that is pending changes them, and no thread has" : "nothing has run",
      state.config.stall_ms);
  add_finding(state, text,
              {head_of(waiting, "has not ended"), head_of(stream, "stands behind it")});
}

void report_function(State& state, Stream& asked, Stream& needed, Asks asks) {
  const bool waits = asks == Asks::waits;
  const std::string text = format_text(
      "stall: {} {}, which is behind {} on {}, {}; nothing has run for {} ms (stall_ms): {}",
      waits ? "a call waits for" : "calls query work of", stream_name(asked.caller_handle),
      call_name(needed.queue.front().call), stream_name(needed.caller_handle),
      describe_head(state, needed), state.config.stall_ms,
      waits ? "the call waits on" : "they may go on");
  add_finding(
      state, text,
      {head_of(needed, "has not ended"),
       waits ? caller(state, "the call") : caller(state, short_name(state.call), "queries")});
}

void report_queried_wait(State& state, Stream& asked, Stream& needed) {
  const std::string text = format_text(
      "stall: calls query work of {}, which is behind {} on {}, {}; nothing that is pending "
      "changes them, and no thread has for {} ms (stall_ms): they may go on",
      stream_name(asked.caller_handle), call_name(needed.queue.front().call),
      stream_name(needed.caller_handle), describe_head(state, needed), state.config.stall_ms);
  add_finding(state, text,
              {head_of(needed, "waits"), caller(state, short_name(state.call), "queries")});
}

void report_silent_wait(State& state, Stream& stream) {
  const std::string text = format_text(
      "stall: {} on {}, {}; nothing that is pending changes them, and the program has made no call "
      "for {} ms (stall_ms): it waits on",
      call_name(stream.queue.front().call), stream_name(stream.caller_handle),
      describe_head(state, stream), state.config.stall_ms);
  add_finding(state, text, {head_of(stream, "waits")});
}

void report_full_queue(State& state, const CallSite& call, const Stream& stream, Stream& needed) {
  const std::string text = format_text(
      "full queue: {} on {}, which holds {} operations behind {}, {}; nothing has run for {} ms "
      "(stall_ms): the call fails",
      call_name(call), stream_name(stream.caller_handle), stream.queue.size(),
      call_name(needed.queue.front().call), describe_head(state, needed), state.config.stall_ms);
  add_finding(state, text, {head_of(needed, "has not ended"), caller(state, short_name(call))});
}

void report_driver_lock(State& state, const CallSite& call, const CallSite& holder) {
  const std::string text = format_text(
      "driver lock: {} waits for the lock of its context, which {} of another thread holds; "
      "nothing "
      "has run for {} ms (stall_ms): the call goes on without",
      call_name(call), call_name(holder), state.config.stall_ms);
  add_finding(
      state, text,
      {{short_name(holder), "holds the lock", 0, holder.stack}, caller(state, short_name(call))});
}

}  // namespace berth::sim
