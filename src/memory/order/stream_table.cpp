// SPDX-License-Identifier: Apache-2.0
#include "memory/order/stream_table.hpp"

#include <cuda.h>

#include <algorithm>

#include "base/check.hpp"
#include "device/device_context.hpp"

namespace berth {

CUstream_st* handle_of(StreamRef stream) {
  return stream.native() == CU_STREAM_LEGACY ? nullptr : stream.native();
}

StreamTable::Key StreamTable::key_of(StreamRef stream) {
  return {&stream.context(), handle_of(stream)};
}

bool StreamTable::Entry::is_owned() const {
  return number != 0 && stream.context().stream_number(stream.native()) == number;
}

OwnerId StreamTable::id_of(StreamRef stream) {
  if (const std::optional<OwnerId> known = find(stream)) return *known;
  const OwnerId id = last_id_ + 1;
  const std::uint64_t number = stream.context().stream_number(stream.native());
  const auto entry = entries_.emplace(id, Entry{.stream = stream, .number = number}).first;
  try {
    ids_.emplace(key_of(stream), id);
  } catch (...) {
    entries_.erase(entry);
    throw;
  }
  return last_id_ = id;
}

std::optional<OwnerId> StreamTable::find(StreamRef stream) const {
  const auto found = ids_.find(key_of(stream));
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

bool StreamTable::is_drained(OwnerId id) const {
  if (id == kUnowned) return true;
  const Entry& entry = entries_.at(id);
  return entry.retired && entry.last_work == nullptr && !entry.unordered && !entry.destroyed;
}

bool StreamTable::has_completed(OwnerId id, const RecordedEvent& recorded) const {
  return is_drained(id) || recorded.before <= entries_.at(id).completed;
}

void StreamTable::set_completed(OwnerId id, const RecordedEvent& recorded) {
  std::uint64_t& completed = entries_.at(id).completed;
  completed = std::max(completed, recorded.after);
}

StreamTable::Entry& StreamTable::require(OwnerId id) noexcept {
  const auto entry = entries_.find(id);
  BERTH_CHECK(entry != entries_.end());
  return entry->second;
}

bool StreamTable::end_handle_use(OwnerId id) noexcept {
  Entry& entry = require(id);
  BERTH_CHECK(entry.handle_uses > 0);
  return --entry.handle_uses == 0;
}

bool StreamTable::is_handle_used(StreamRef stream) const {
  return std::ranges::any_of(entries_, [key = key_of(stream)](const auto& each) {
    return each.second.handle_uses > 0 && key_of(each.second.stream) == key;
  });
}

void StreamTable::retire(OwnerId id, SharedEvent last_work) noexcept {
  Entry& entry = require(id);
  BERTH_CHECK(!entry.retired);
  ids_.erase(key_of(entry.stream));
  entry.retired = true;
  entry.last_work = std::move(last_work);
}

void StreamTable::retire_unordered(OwnerId id) noexcept {
  retire(id, nullptr);
  require(id).unordered = true;
}

void StreamTable::mark_destroyed(OwnerId id) noexcept {
  retire(id, nullptr);
  require(id).destroyed = true;
}

void StreamTable::mark_drained(OwnerId id) noexcept {
  Entry& entry = require(id);
  BERTH_CHECK(entry.retired && !entry.unordered);
  entry.last_work = nullptr;
  entry.destroyed = false;
}

std::vector<OwnerId> StreamTable::all() const {
  std::vector<OwnerId> ids;
  for (const auto& [id, entry] : entries_) ids.push_back(id);
  return ids;
}

std::vector<OwnerId> StreamTable::draining() const {
  std::vector<OwnerId> ids;
  for (const auto& [id, entry] : entries_) {
    if (entry.retired && entry.last_work != nullptr) ids.push_back(id);
  }
  return ids;
}

void StreamTable::forget_drained_except(const std::set<OwnerId>& named) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const bool forget = is_drained(entry->first) && entry->second.handle_uses == 0 &&
                        named.count(entry->first) == 0;
    entry = forget ? entries_.erase(entry) : std::next(entry);
  }
}

}  // namespace berth
