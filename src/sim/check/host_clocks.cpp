// SPDX-License-Identifier: Apache-2.0
#include "sim/check/host_clocks.hpp"

#include "sim/device/context.hpp"

namespace berth::sim {

HostClock& HostClocks::current() {
  const ThreadState& thread = this_thread();
  if (thread.acts_for != nullptr) return objects_[thread.acts_for];
  return threads_apart_ ? of_thread(thread.id) : program_;
}

void HostClocks::enter_thread() {
  if (threads_apart_) of_thread(this_thread().id);
}

const Clock* HostClocks::find(const void* object) const {
  const auto found = objects_.find(object);
  return found == objects_.end() ? nullptr : &found->second.clock;
}

HostClock& HostClocks::of_thread(std::uint64_t thread) {
  const auto [entry, is_new] = threads_.try_emplace(thread);
  if (is_new) learn(entry->second, all_threads_);
  return entry->second;
}

void HostClocks::learn(HostClock& who, const Clock& clock) {
  if (!who.clock.join(clock)) return;
  who.version = ++versions_;
  all_threads_.join(clock);
}

void HostClocks::learn(HostClock& who, Stamp stamp) {
  if (!who.clock.include(stamp)) return;
  who.version = ++versions_;
  all_threads_.include(stamp);
}

void HostClocks::learn_everywhere(const Clock& clock) {
  learn(program_, clock);
  for (auto& [id, thread] : threads_) learn(thread, clock);
}

void HostClocks::release(const void* object) {
  learn(objects_[object], current().clock);
}

void HostClocks::acquire(const void* object) {
  if (const Clock* known = find(object)) learn(current(), *known);
}

std::vector<Stamp> HostClocks::forget(std::span<const std::byte> memory) {
  const auto first = objects_.lower_bound(memory.data());
  const auto last = objects_.lower_bound(memory.data() + memory.size());
  std::vector<Stamp> uses;
  for (auto object = first; object != last; ++object)
    if (object->second.latest) uses.push_back(*object->second.latest);
  objects_.erase(first, last);
  return uses;
}

std::optional<Stamp> HostClocks::end_thread(std::uint64_t thread) {
  const auto found = threads_.find(thread);
  if (found == threads_.end()) return std::nullopt;
  const HostClock ended = found->second;
  threads_.erase(found);
  learn_everywhere(ended.clock);
  return ended.latest;
}

}  // namespace berth::sim
