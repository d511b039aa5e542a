// SPDX-License-Identifier: Apache-2.0
#include "memory/order/block_uses.hpp"

#include <algorithm>
#include <utility>

namespace berth {

void BlockUses::add(Block& block, Use use) {
  BERTH_CHECK(block.state() == Block::State::allocated);
  bool is_covered = false;
  for_each(block, [&](const Use& other) {
    is_covered |= other.stream == use.stream && other.end.covers(use.end);
  });
  if (is_covered) return;
  // Allocations first, because they may throw; a spare entry stays spare then.
  reserve_spare();
  ++queues_[use.stream].entry_count;
  drop_if(block, [&](const Use& other) {
    return other.stream == use.stream && use.end.covers(other.end);
  });
  take_spare(block, std::move(use));
}

std::uint32_t BlockUses::take_spare(Block& block, Use use) noexcept {
  const std::uint32_t number = spare_;
  Entry& entry = entries_[number];
  spare_ = entry.next;
  entry.use = std::move(use);
  entry.next = block.uses.list;
  block.uses.list = number;
  return number;
}

void BlockUses::hold(Block& block) {
  BERTH_CHECK(block.state() == Block::State::allocated);
  std::uint32_t number = find_hold(block);
  if (number == 0) {
    reserve_spare();
    number = take_spare(block, {});
  }
  ++entries_[number].made;
}

bool BlockUses::release_hold(Block& block) noexcept {
  std::uint32_t* link = &block.uses.list;
  while (*link != 0 && entries_[*link].use.stream != kUnowned) link = &entries_[*link].next;
  const std::uint32_t number = *link;
  BERTH_CHECK(number != 0 && entries_[number].made > 0);
  if (--entries_[number].made > 0) return false;
  *link = entries_[number].next;
  recycle(number);
  if (block.state() != Block::State::pending) return false;
  --held_count_;
  BERTH_CHECK(block.uses.marks_left > 0);
  return --block.uses.marks_left == 0;
}

bool BlockUses::lasts(const Block& block, OwnerId stream) const {
  bool lasts = false;
  for_each(block,
           [&](const Use& use) { lasts |= use.stream == stream && use.end.event == nullptr; });
  return lasts;
}

void BlockUses::defer(Block& block) noexcept {
  BERTH_CHECK(block.state() == Block::State::pending && block.uses.marks_left == 0);
  BERTH_CHECK(any(block));
  for (std::uint32_t number = std::exchange(block.uses.list, 0); number != 0;) {
    Entry& entry = entries_[number];
    const std::uint32_t next = entry.next;
    if (entry.use.stream == kUnowned) {
      entry.next = 0;
      block.uses.list = number;
      ++block.uses.marks_left;
      ++held_count_;
      number = next;
      continue;
    }
    entry.block = &block;
    entry.made = tick();
    Queue& queue = queues_.find(entry.use.stream)->second;
    if (entry.use.end.event != nullptr) {
      insert_by_event(queue.sealed, number);
    } else {
      link_behind(queue.unsealed, queue.unsealed.last, number);
    }
    ++block.uses.marks_left;
    ++mark_count_;
    number = next;
  }
}

bool BlockUses::needs_seal(OwnerId stream) const {
  const auto queue = queues_.find(stream);
  return queue != queues_.end() && queue->second.unsealed.first != 0;
}

void BlockUses::seal(OwnerId stream, std::uint64_t began, const SharedEvent& event) noexcept {
  const auto found = queues_.find(stream);
  if (found == queues_.end() || event == nullptr) return;
  Queue& queue = found->second;
  if (!queue.has_marks()) return;
  const RecordedEvent end{event, began, tick()};
  for (List& waiting = queue.unsealed; waiting.first != 0;) {
    const std::uint32_t number = waiting.first;
    if (entries_[number].made > began) break;
    unlink_first(waiting);
    entries_[number].use.end = end;
    link_behind(queue.sealed, queue.sealed.last, number);  // later than all numbered ones
  }
}

std::vector<OwnerId> BlockUses::streams() const {
  std::vector<OwnerId> streams;
  for (const auto& [stream, queue] : queues_) {
    if (queue.has_marks()) streams.push_back(stream);
  }
  std::sort(streams.begin(), streams.end(),
            [&](OwnerId a, OwnerId b) { return since(queues_.at(a)) < since(queues_.at(b)); });
  return streams;
}

RecordedEvent BlockUses::front(OwnerId stream) const {
  if (!has_marks(stream)) return {};
  return entries_[queues_.at(stream).oldest().first].use.end;
}

std::vector<OwnerId> BlockUses::owners_held_up() const {
  std::vector<OwnerId> owners;
  for (const auto& [stream, queue] : queues_) {
    for (std::uint32_t mark = queue.sealed.first; mark != 0; mark = entries_[mark].next) {
      const OwnerId owner = entries_[mark].block->owner;
      if (std::ranges::find(owners, owner) == owners.end()) owners.push_back(owner);
    }
  }
  return owners;
}

std::optional<BlockUses::Awaited> BlockUses::awaited_by(OwnerId owner, std::size_t bytes) const {
  const Queues::value_type* oldest = nullptr;
  std::uint32_t oldest_mark = 0;
  for (const Queues::value_type& queue : queues_) {
    std::uint32_t mark = queue.second.sealed.first;
    while (mark != 0 && entries_[mark].block->owner != owner) mark = entries_[mark].next;
    const bool is_older =
        mark != 0 &&
        (oldest == nullptr || entries_[mark].use.end.before < entries_[oldest_mark].use.end.before);
    if (!is_older) continue;
    oldest = &queue;
    oldest_mark = mark;
  }
  if (oldest == nullptr) return std::nullopt;
  std::uint32_t last = oldest_mark;
  std::size_t held_up = 0;
  for (std::uint32_t mark = oldest_mark; mark != 0 && held_up < bytes; mark = entries_[mark].next) {
    if (entries_[mark].block->owner != owner) continue;
    held_up += entries_[mark].block->bytes;
    last = mark;
  }
  return Awaited{oldest->first, entries_[last].use.end};
}

bool BlockUses::has_marks(OwnerId stream) const {
  const auto queue = queues_.find(stream);
  return queue != queues_.end() && queue->second.has_marks();
}

std::uint64_t BlockUses::since(const Queue& queue) const {
  const Entry& oldest = entries_[queue.oldest().first];
  return queue.sealed.first != 0 ? oldest.use.end.before : oldest.made;
}

/// Blocks are freed roughly in the order of their uses, or, as local objects are destroyed, in the
/// reverse order. So the place is searched from both ends at once.
void BlockUses::insert_by_event(List& marks, std::uint32_t number) noexcept {
  const std::uint64_t before = entries_[number].use.end.before;
  std::uint32_t earlier = marks.last;
  for (std::uint32_t later = marks.first; earlier != 0; later = entries_[later].next) {
    if (entries_[earlier].use.end.before <= before) break;
    if (entries_[later].use.end.before > before) {
      earlier = entries_[later].prev;
      break;
    }
    earlier = entries_[earlier].prev;
  }
  link_behind(marks, earlier, number);
}

/// `place` 0: at the front.
void BlockUses::link_behind(List& marks, std::uint32_t place, std::uint32_t number) noexcept {
  const std::uint32_t next = place != 0 ? entries_[place].next : marks.first;
  entries_[number].prev = place;
  entries_[number].next = next;
  (place != 0 ? entries_[place].next : marks.first) = number;
  (next != 0 ? entries_[next].prev : marks.last) = number;
}

}  // namespace berth
