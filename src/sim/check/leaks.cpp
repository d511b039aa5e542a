// SPDX-License-Identifier: Apache-2.0
#include "sim/check/leaks.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/text_list.hpp"
#include "sim/check/process_exit.hpp"
#include "sim/state.hpp"

namespace berth::sim {
namespace {

struct Count {
  const char* noun;
  std::size_t objects = 0;
  std::uint64_t bytes = 0;
  const CallStack* made_at = nullptr;
};

/// The objects of one kind: all of them, and by the place where they were made.
struct Kind {
  Count all;
  std::vector<Count> places = {};
  std::vector<std::string> names = {};  ///< MemoryNames::describe(), of those that have one
};

/// The maximum that a finding names.
constexpr std::size_t kPlacesNamed = 4;
constexpr std::size_t kNamesMax = 4;

void add(Count& count, std::uint64_t bytes) {
  ++count.objects;
  count.bytes += bytes;
}

void add(Kind& kind, std::uint64_t bytes, const CallStack* made_at) {
  add(kind.all, bytes);
  if (made_at == nullptr) return;
  auto place = std::ranges::find(kind.places, made_at, &Count::made_at);
  if (place == kind.places.end()) {
    if (kind.places.size() == kPlacesNamed) return;
    place = kind.places.insert(place, {.noun = kind.all.noun, .made_at = made_at});
  }
  add(*place, bytes);
}

std::string describe(const Count& count) {
  const std::string objects = counted(count.objects, count.noun);
  return count.bytes == 0 ? objects : format_text("{} of {} B", objects, count.bytes);
}

}  // namespace

void check_leaks(State& state, const Context& context, const CallSite& call) {
  if (!state.config.checks.leaks || context.sticky != CUDA_SUCCESS) return;
  if (process_exits()) return;
  Kind allocations{{"allocation"}};
  Kind of_graphs{{"graph allocation"}};
  Kind imported{{"imported allocation"}};
  Kind managed{{"managed allocation"}};
  Kind pinned{{"pinned host allocation"}};
  Kind registrations{{"host registration"}};
  Kind streams{{"stream"}};
  Kind events{{"event"}};
  state.addresses.for_each_range([&](const Range& range) {
    if (range.context != context.handle || range.is_variable) return;
    const auto add_if = [&](RangeKind kind, Kind& to) {
      if (range.kind != kind) return;
      add(to, range.bytes, range.made_at);
      if (std::string name = state.memory_names.describe(range.start, range.bytes);
          !name.empty() && to.names.size() < kNamesMax)
        to.names.push_back(std::move(name));
    };
    add_if(RangeKind::allocation, allocations);
    add_if(RangeKind::imported, imported);
    add_if(RangeKind::managed, managed);
    add_if(RangeKind::host_allocation, pinned);
    add_if(RangeKind::host_registration, registrations);
  });
  for (const auto& memory : state.graph_memories.allocated)
    if (memory->context == context.handle) add(of_graphs, memory->bytes, nullptr);
  state.streams.for_each([&](const Stream& stream) {
    if (stream.context == context.handle && stream.was_created()) add(streams, 0, stream.made_at);
  });
  state.events.for_each([&](const Event& event) {
    if (event.context == context.handle) add(events, 0, event.made_at);
  });
  std::vector<std::string> leaked;
  std::vector<FindingUse> uses;
  for (const Kind* kind : {&allocations, &of_graphs, &imported, &managed, &pinned, &registrations,
                           &streams, &events}) {
    if (kind->all.objects != 0) leaked.push_back(describe(kind->all) + join_texts(kind->names, ""));
    for (const Count& place : kind->places)
      uses.push_back({describe(place), "made", place.bytes, place.made_at});
  }
  if (leaked.empty()) return;
  state.findings.add(
      {format_text("leak: {} (call {}) ends a context of device {} that still has {}",
                   function_name(call.function), call.number, context.ordinal,
                   join_texts(leaked, ", ")),
       std::move(uses)});
}

}  // namespace berth::sim
