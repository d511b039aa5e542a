// SPDX-License-Identifier: Apache-2.0
#include "memory/order/deferred_frees.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace berth {

void DeferredFrees::add(Block& block, const std::vector<UseLists::Use>& uses) {
  BERTH_CHECK(block.state() == Block::State::pending && block.uses.marks_left == 0);
  BERTH_CHECK(!uses.empty());
  for (const auto& [stream, end] : uses) {
    std::deque<Mark>& queue = queues_[stream];
    // At the end or near it: blocks are freed much in the order of their uses.
    const auto place = std::upper_bound(
        queue.begin(), queue.end(), end.before,
        [](std::uint64_t before, const Mark& mark) { return before < mark.end.before; });
    queue.insert(place, {tick(), &block, end});
  }
  block.uses.marks_left = static_cast<std::uint32_t>(uses.size());
}

bool DeferredFrees::needs_seal(OwnerId stream) const {
  const auto queue = queues_.find(stream);
  return queue != queues_.end() && !queue->second.back().is_sealed();
}

void DeferredFrees::seal(OwnerId stream, std::uint64_t began, const SharedEvent& event) {
  const auto queue = queues_.find(stream);
  if (queue == queues_.end() || event == nullptr) return;
  const RecordedEvent end{event, began, tick()};
  for (auto mark = queue->second.rbegin(); mark != queue->second.rend(); ++mark) {
    if (mark->is_sealed()) break;  // as all before it
    if (mark->made <= began) mark->end = end;
  }
}

std::vector<OwnerId> DeferredFrees::streams() const {
  std::vector<OwnerId> streams;
  for (const auto& [stream, queue] : queues_) streams.push_back(stream);
  std::sort(streams.begin(), streams.end(), [&](OwnerId a, OwnerId b) {
    return queues_.at(a).front().since() < queues_.at(b).front().since();
  });
  return streams;
}

RecordedEvent DeferredFrees::front(OwnerId stream) const {
  const auto queue = queues_.find(stream);
  return queue == queues_.end() ? RecordedEvent{} : queue->second.front().end;
}

std::vector<Block*> DeferredFrees::pass(OwnerId stream, const SharedEvent& event) {
  std::vector<Block*> ready;
  const auto found = queues_.find(stream);
  if (found == queues_.end()) return ready;
  std::deque<Mark>& queue = found->second;
  while (!queue.empty() && queue.front().end.event == event) {
    Block* const block = queue.front().block;
    queue.pop_front();
    BERTH_CHECK(block->uses.marks_left > 0);
    if (--block->uses.marks_left == 0) ready.push_back(block);
  }
  if (queue.empty()) queues_.erase(found);
  return ready;
}

std::size_t DeferredFrees::mark_count() const {
  std::size_t count = 0;
  for (const auto& [stream, queue] : queues_) count += queue.size();
  return count;
}

}  // namespace berth
