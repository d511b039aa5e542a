// SPDX-License-Identifier: Apache-2.0
#include "sim/memory/managed_advice.hpp"

#include <algorithm>
#include <iterator>

namespace berth::sim {

void ManagedAdvice::split(std::uint64_t at) {
  auto after = stretches_.upper_bound(at);
  if (after == stretches_.begin()) return;
  const auto found = std::prev(after);
  if (found->first == at || found->second.end <= at) return;
  stretches_.emplace_hint(after, at, found->second);
  found->second.end = at;
}

ManagedAdvice::Stretch& ManagedAdvice::stretch_at(std::uint64_t at, std::uint64_t end) {
  split(at);
  split(end);
  const auto next = stretches_.lower_bound(at);
  if (next != stretches_.end() && next->first == at) return next->second;
  const std::uint64_t until = next == stretches_.end() ? end : std::min(end, next->first);
  return stretches_.emplace_hint(next, at, Stretch{until, {}})->second;
}

ManagedAdvice::Stretch ManagedAdvice::read(std::uint64_t at, std::uint64_t end) const {
  const auto next = stretches_.upper_bound(at);
  const auto found = next == stretches_.begin() ? stretches_.end() : std::prev(next);
  if (found != stretches_.end() && found->second.end > at)
    return {std::min(end, found->second.end), found->second.advice};
  return {next == stretches_.end() ? end : std::min(end, next->first), {}};
}

void ManagedAdvice::forget(std::uint64_t start, std::uint64_t bytes) {
  stretches_.erase(stretches_.lower_bound(start), stretches_.lower_bound(page_end(start + bytes)));
}

}  // namespace berth::sim
