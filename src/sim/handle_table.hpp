// SPDX-License-Identifier: Apache-2.0
// Objects behind opaque handles. A handle is never dereferenced but looked up, and no value is used
// twice in a process, so stale, foreign and invented handles are always detected. Objects do not
// move. Guarded by sim::mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"

namespace berth::sim {

/// A handle; 0 is none. Bits 59 to 62 are the kind, so that no handle is a valid address, and none
/// is negative as a signed number; bits 28 to 58 are the generation; bits 4 to 27 are the slot.
using Handle = std::uint64_t;

enum class HandleKind : std::uint64_t {
  context = 1,
  stream,
  event,
  physical_block,
  capture,
  graph,
  graph_node,
  graph_exec,
  memory_pool,
  user_object,
  module,
  device_function,
};

/// The next generation; one sequence for all tables, also those of later simulators.
std::uint64_t next_handle_generation();

/// T has a constructor whose first parameter is its Handle.
template <class T, HandleKind kind>
class HandleTable {
 public:
  template <class... Arguments>
  T& create(Arguments&&... arguments) {
    // In this order, so that a failed allocation leaves the table unchanged.
    if (free_.empty()) {
      BERTH_CHECK(slots_.size() < kSlots);
      slots_.emplace_back();
      free_.push_back(slots_.size() - 1);
    }
    const std::size_t index = free_.back();
    Slot& slot = slots_[index];
    const Handle handle = static_cast<std::uint64_t>(kind) << 59 |
                          (next_handle_generation() & 0x7fffffff) << 28 | index << 4;
    T& made = slot.object.emplace(handle, std::forward<Arguments>(arguments)...);
    slot.handle = handle;
    free_.pop_back();
    ++size_;
    return made;
  }

  T* find(Handle handle) {
    const std::size_t index = (handle >> 4) & (kSlots - 1);
    if (index >= slots_.size()) return nullptr;
    Slot& slot = slots_[index];
    return handle != 0 && slot.handle == handle ? &*slot.object : nullptr;
  }

  void erase(Handle handle) {
    T* object = find(handle);
    BERTH_CHECK(object != nullptr);
    const std::size_t index = (handle >> 4) & (kSlots - 1);
    slots_[index].object.reset();
    slots_[index].handle = 0;
    free_.push_back(index);
    --size_;
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  template <class Visit>
  void for_each(Visit&& visit) {
    for (Slot& slot : slots_)
      if (slot.object) visit(*slot.object);
  }

 private:
  static constexpr std::size_t kSlots = 1 << 24;

  struct Slot {
    Handle handle = 0;
    std::optional<T> object;
  };

  std::deque<Slot> slots_;
  std::vector<std::size_t> free_;
  std::size_t size_ = 0;
};

}  // namespace berth::sim
