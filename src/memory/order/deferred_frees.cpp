// SPDX-License-Identifier: Apache-2.0
#include "memory/order/deferred_frees.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace berth {

void DeferredFrees::add(Block& block, const std::vector<OwnerId>& streams) {
  BERTH_CHECK(block.state() == Block::State::pending && block.uses.marks_left == 0);
  BERTH_CHECK(!streams.empty());
  for (const OwnerId stream : streams) {
    queues_[stream].push_back({++last_mark_, &block, nullptr});
  }
  block.uses.marks_left = static_cast<std::uint32_t>(streams.size());
}

bool DeferredFrees::needs_seal(OwnerId stream) const {
  const auto queue = queues_.find(stream);
  return queue != queues_.end() && queue->second.back().event == nullptr;
}

void DeferredFrees::seal(OwnerId stream, std::uint64_t mark, const SharedEvent& event) {
  const auto queue = queues_.find(stream);
  if (queue == queues_.end()) return;
  for (auto it = queue->second.rbegin(); it != queue->second.rend(); ++it) {
    if (it->number > mark) continue;
    if (it->event != nullptr) break;  // older marks were sealed before
    it->event = event;
  }
}

std::vector<OwnerId> DeferredFrees::streams() const {
  std::vector<OwnerId> streams;
  for (const auto& [stream, queue] : queues_) streams.push_back(stream);
  std::sort(streams.begin(), streams.end(), [&](OwnerId a, OwnerId b) {
    return queues_.at(a).front().number < queues_.at(b).front().number;
  });
  return streams;
}

SharedEvent DeferredFrees::front(OwnerId stream) const {
  const auto queue = queues_.find(stream);
  return queue == queues_.end() ? nullptr : queue->second.front().event;
}

std::vector<Block*> DeferredFrees::pass(OwnerId stream, const SharedEvent& event) {
  std::vector<Block*> ready;
  const auto found = queues_.find(stream);
  if (found == queues_.end()) return ready;
  std::deque<Mark>& queue = found->second;
  while (!queue.empty() && queue.front().event == event) {
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
