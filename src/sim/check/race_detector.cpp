// SPDX-License-Identifier: Apache-2.0
#include "sim/check/race_detector.hpp"

#include "base/format.hpp"
#include "sim/check/graph_uses.hpp"
#include "sim/check/names.hpp"
#include "sim/check/pending_use.hpp"
#include "sim/state.hpp"
#include "sim/work/work_memory.hpp"

namespace berth::sim {
namespace {

const char* verb(UseKind kind) {
  switch (kind) {
    case UseKind::reads:
      return "reads";
    case UseKind::writes:
      return "writes";
    case UseKind::begins:
      return "allocates";
    case UseKind::ends:
      return "frees";
  }
  return "";
}

/// Whether the program could still wait for `use`: not for work of a context that has failed, or of
/// a device that is lost.
bool can_be_awaited(State& state, const Use& use) {
  if (use.by_host) return true;
  const Context* context = state.contexts.find(use.context);
  if (context != nullptr) return context->sticky == CUDA_SUCCESS;
  return !state.devices[static_cast<std::size_t>(use.device)].lost;
}

std::string describe(const State& state, const Use& use) {
  const std::string memory = memory_text(state, use.address, use.bytes);
  if (use.by_host) return format_text("the host {} {}", verb(use.kind), memory);
  return format_text("{} on {} {} {}", call_name(use.call), stream_name(use.stream), verb(use.kind),
                     memory);
}

/// A use whose graph the text names elsewhere.
std::string describe_in_graph(const State& state, const Use& use) {
  return format_text("{} {} {}", node_name(use.call), verb(use.kind),
                     memory_text(state, use.address, use.bytes));
}

bool are_of_one_launch(const Use& a, const Use& b) {
  return !a.by_host && !b.by_host && a.call.launch != 0 && a.call.launch == b.call.launch;
}

std::string describe(const State& state, const Use& use, const Conflict& conflict) {
  const Use& earlier = conflict.earlier;
  if (conflict.kind == Conflict::Kind::race && are_of_one_launch(use, earlier))
    return format_text(
        "race: {}, while {}; both are {} on {}, and nothing orders the one after the other",
        describe_in_graph(state, use), describe_in_graph(state, earlier), launch_name(use.call),
        stream_name(use.stream));
  if (conflict.kind == Conflict::Kind::race)
    return format_text("race: {}, while {}; nothing orders the one after the other",
                       describe(state, use), describe(state, earlier));
  const bool is_one = earlier.stamp.lane == use.stamp.lane && earlier.stamp.time == use.stamp.time;
  if (is_one)
    return format_text(
        "aliasing: {}, and {} {}, another mapping of the same memory; within one operation the two "
        "are not coherent",
        describe(state, use), verb(earlier.kind),
        memory_text(state, earlier.address, earlier.bytes));
  return format_text(
      "aliasing: {}, after {} through another mapping of the same memory; the kernel was on the "
      "device before that ended, so the two are not coherent",
      describe(state, use), describe(state, earlier));
}

FindingUse finding_use(const Use& use) {
  return {use.by_host ? "the host" : short_name(use.call), verb(use.kind), use.bytes,
          use.call.stack, use.call.launch != 0 ? use.call.number : 0};
}

}  // namespace

void RaceDetector::use(State& state, const Use& use, const Clock& before,
                       std::span<const std::byte> data, const Arrival* arrival) {
  if (!on_) return;
  if (use.kind == UseKind::writes) words_.note_write(use, before, data);
  const auto counts = [&](const Use& earlier) { return can_be_awaited(state, earlier); };
  if (const auto met = shadow_.enter(data, use, before, arrival, counts))
    findings_.add({describe(state, use, *met), {finding_use(met->earlier), finding_use(use)}});
}

void RaceDetector::check_end(State& state, const Range& range, CallSite call) {
  if (!on_) return;
  std::optional<Use> use = find_use_done(state, range);
  if (!use) use = find_pending_use(state, range.start, range.bytes);
  if (!use) return;
  call.stack = state.stacks.here();
  findings_.add({format_text("race: {} ends {}, while {}; nothing waited for that", call_name(call),
                             memory_text(state, range.start, range.bytes), describe(state, *use)),
                 {finding_use(*use), {short_name(call), "ends", range.bytes, call.stack}}});
}

void RaceDetector::check_order(State& state, const Use& free, const Range& range) {
  if (!on_) return;
  if (const auto allocation = find_pending_allocation(state, range))
    findings_.add({describe(state, free, {Conflict::Kind::race, *allocation}),
                   {finding_use(*allocation), finding_use(free)}});
}

void RaceDetector::use_by_host(State& state, UseKind kind, std::uint64_t address,
                               std::uint64_t bytes) {
  if (!on_) return;
  state.addresses.for_each_host_range(address, bytes, [&](const Range& range) {
    const Clock before = order_.host();
    const CallSite here{.stack = state.stacks.here()};
    const Use ours{order_.host_acts(), here, 0, range.start, range.bytes, kind, true};
    use(state, ours, before, bytes_of(state, range, 0));
  });
}

void RaceDetector::recycle(State& state, std::uint64_t address, std::uint64_t bytes) {
  if (!on_) return;
  // A call that the plan refuses does not say what it would have said.
  const bool has_faulted = state.faults.has_fired();
  state.addresses.for_each_host_range(address, bytes, [&](const Range& range) {
    // What is pending may be the next user's, behind a wait for the host.
    const auto use = has_faulted ? std::nullopt : find_use_done(state, range);
    if (use)
      findings_.add(
          {format_text("race: the host hands {} on, while {}; nothing waited for that",
                       memory_text(state, range.start, range.bytes), describe(state, *use)),
           {finding_use(*use), {"the host", "hands on", range.bytes, state.stacks.here()}}});
    forget(bytes_of(state, range, 0));
  });
  check_reuse(state, address, bytes);
}

void RaceDetector::check_reuse(State& state, std::uint64_t address, std::uint64_t bytes) {
  if (!on_) return;
  state.addresses.for_each_host_range(address, bytes, [&](const Range& range) {
    const auto found = find_graph_use(state, range.start, range.bytes);
    if (!found) return;
    findings_.add(format_text(
        "race: the host hands {} on, while {} {:#x} {} {} when it is launched; it was not "
        "destroyed",
        memory_text(state, range.start, range.bytes),
        found->is_executable ? "executable graph" : "graph", found->graph, verb(found->use.kind),
        memory_text(state, found->use.address, found->use.bytes)));
  });
}

void RaceDetector::check_launch(State& state, const GraphExec& exec, CallSite call) {
  if (!on_) return;
  for (const GraphExec::Node& node : exec.nodes) {
    if (!node.freed || !node.is_enabled) continue;
    const CallSite& freed = node.freed->call;
    const Use& use = node.freed->use;
    findings_.add(
        {format_text(
             "race: {} launches executable graph {:#x}, which {} {}; {} has freed that since",
             call_name(call), exec.handle, verb(use.kind),
             memory_text(state, use.address, use.bytes), call_name(freed)),
         {{short_name(freed), "frees", use.bytes, freed.stack},
          {short_name(call), verb(use.kind), use.bytes, state.stacks.here()}}});
    return;
  }
}

std::optional<Use> RaceDetector::find_use_done(State& state, const Range& range) const {
  const auto counts = [&](const Use& use) { return can_be_awaited(state, use); };
  for (std::uint64_t at = 0; at < range.bytes;) {
    const std::span<const std::byte> stretch = bytes_of(state, range, at);
    const auto use =
        shadow_.find_use_beyond(stretch, range.start, range.bytes, order_.host(), counts);
    if (use) return use;
    at += stretch.size();
  }
  return std::nullopt;
}

void RaceDetector::forget(std::span<const std::byte> data) {
  if (!on_) return;
  shadow_.forget(data);
  releases_.erase(releases_.lower_bound(data.data()),
                  releases_.lower_bound(data.data() + data.size()));
  words_.forget(data);
  order_.forget_objects(data);
}

void RaceDetector::move(std::span<const std::byte> data, const std::byte* to) {
  if (!on_) return;
  shadow_.move(data, to);
  const std::byte* const end = data.data() + data.size();
  for (auto at = releases_.lower_bound(data.data()); at != releases_.end() && at->first < end;) {
    releases_.insert_or_assign(to + (at->first - data.data()), std::move(at->second));
    at = releases_.erase(at);
  }
}

void RaceDetector::release(const Clock& before, const std::byte* where, std::uint64_t value,
                           unsigned bytes) {
  if (!on_) return;
  releases_[where] = before;
  words_.note(where, value, bytes, before);
}

void RaceDetector::observe(const std::byte* where, std::optional<std::uint64_t> value) {
  if (!on_) return;
  if (const Clock* writer = words_.find(where, value)) order_.host_sees(*writer);
}

void RaceDetector::acquire(StreamOrder& order, Stamp wait, const std::byte* where, bool from_host) {
  if (!on_) return;
  Clock clock;
  if (from_host) {
    const Clock* writer = order_.hosts().find(where);
    clock.join(writer != nullptr ? *writer : order_.hosts().all_threads());
  }
  if (const auto release = releases_.find(where); release != releases_.end())
    clock.join(release->second);
  order_.order_late(order, wait, clock);
}

}  // namespace berth::sim
