// SPDX-License-Identifier: Apache-2.0
#include "sim/check/leaks.hpp"

#include "base/format.hpp"
#include "base/text_list.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

struct Count {
  const char* noun;
  std::size_t objects = 0;
  std::uint64_t bytes = 0;
};

void add(Count& count, std::uint64_t bytes) {
  ++count.objects;
  count.bytes += bytes;
}

std::string describe(const Count& count) {
  const char* const plural = count.objects == 1 ? "" : "s";
  if (count.bytes == 0) return format_text("{} {}{}", count.objects, count.noun, plural);
  return format_text("{} {}{} of {} B", count.objects, count.noun, plural, count.bytes);
}

}  // namespace

void check_leaks(State& state, const Context& context, const CallSite& call) {
  if (!state.config.checks.leaks || context.sticky != CUDA_SUCCESS) return;
  Count allocations{"allocation"};
  Count of_graphs{"graph allocation"};
  Count imported{"imported allocation"};
  Count managed{"managed allocation"};
  Count pinned{"pinned host allocation"};
  Count registrations{"host registration"};
  Count streams{"stream"};
  Count events{"event"};
  state.addresses.for_each_range([&](const Range& range) {
    if (range.context != context.handle) return;
    if (range.kind == RangeKind::allocation) add(allocations, range.bytes);
    if (range.kind == RangeKind::imported) add(imported, range.bytes);
    if (range.kind == RangeKind::managed) add(managed, range.bytes);
    if (range.kind == RangeKind::host_allocation) add(pinned, range.bytes);
    if (range.kind == RangeKind::host_registration) add(registrations, range.bytes);
  });
  for (const auto& memory : state.graph_memories.allocated)
    if (memory->context == context.handle) add(of_graphs, memory->bytes);
  state.streams.for_each([&](const Stream& stream) {
    if (stream.context == context.handle && stream.was_created()) add(streams, 0);
  });
  state.events.for_each([&](const Event& event) {
    if (event.context == context.handle) add(events, 0);
  });
  std::vector<std::string> leaked;
  for (const Count* count :
       {&allocations, &of_graphs, &imported, &managed, &pinned, &registrations, &streams, &events})
    if (count->objects != 0) leaked.push_back(describe(*count));
  if (leaked.empty()) return;
  state.findings.add(format_text("leak: {} (call {}) ends a context of device {} that still has {}",
                                 function_name(call.function), call.number, context.ordinal,
                                 join_texts(leaked, ", ")));
}

}  // namespace berth::sim
