// SPDX-License-Identifier: Apache-2.0
#include "sim/check/ended_memory.hpp"

#include <algorithm>

#include "sim/state.hpp"

namespace berth::sim {

void EndedMemory::note(State& state, const Range& range) {
  if (state.ending) return;
  CallSite call = state.call;
  call.stack = state.stacks.here();
  note(state, range, call);
}

void EndedMemory::note(State& state, const Range& range, const CallSite& call) {
  if (entries_.size() == kRemembered) entries_.pop_front();
  entries_.push_back(
      {range.start, range.bytes, call, state.memory_names.describe(range.start, range.bytes)});
  state.memory_names.forget(range.start, range.bytes);
}

const EndedMemory::Entry* EndedMemory::find(std::uint64_t start, std::uint64_t bytes) const {
  const auto found = std::find_if(entries_.rbegin(), entries_.rend(), [&](const Entry& entry) {
    return start < entry.start ? entry.start - start < bytes : start - entry.start < entry.bytes;
  });
  return found == entries_.rend() ? nullptr : &*found;
}

}  // namespace berth::sim
