// SPDX-License-Identifier: Apache-2.0
#include "memory/memory_errors.hpp"

#include "berth/bytes.hpp"

#include "base/counted.hpp"
#include "base/format.hpp"

namespace berth {
namespace {

std::string exact(std::size_t bytes) {
  const std::string rounded = format_bytes(bytes);
  const std::string all = format_text("{} B", bytes);
  return rounded == all ? all : format_text("{} ({})", rounded, all);
}

void append_limit(std::string& text, std::size_t bytes) {
  if (bytes != MemoryBudget::kNoLimit) text += format_text("; limit {}", format_bytes(bytes));
}

/// For a request that fits below the limit by its size alone.
void append_granule(std::string& text, const OutOfMemoryNumbers& numbers) {
  const std::size_t limit = numbers.bytes_reserved_max;
  const std::size_t reserved =
      numbers.counters.bytes_reserved.current + numbers.bytes_reserved_by_others;
  if (limit == MemoryBudget::kNoLimit || reserved > limit) return;
  const std::size_t left = limit - reserved;
  if (numbers.bytes_requested > left || left >= numbers.granule_bytes) return;
  text += format_text(", which leaves {}, less than one granule of {} that memory is obtained in",
                      format_bytes(left), format_bytes(numbers.granule_bytes));
}

void append_headroom(std::string& text, std::size_t bytes) {
  if (bytes > 0) text += format_text("; headroom {}", format_bytes(bytes));
}

void append_driver_memory(std::string& text, std::size_t free, std::size_t total) {
  if (total == 0) return;
  text += format_text("; the driver has {} of {} free", format_bytes(free), format_bytes(total));
}

std::string describe_place(const void* data, const Block* covering) {
  if (covering == nullptr) return kNotOfThisAllocator;
  switch (covering->state()) {
    case Block::State::allocated:
      return describe_inside(data, covering->data());
    case Block::State::pending:
      return kFreedAndPending;
    case Block::State::cached:
    case Block::State::free:
      return "it was freed before, or never allocated: its memory is free";
    case Block::State::part:
      return "its memory is in use at another address";
    case Block::State::unmapped:
    case Block::State::held:
      return "no memory is mapped there";
  }
  return kNotOfThisAllocator;
}

}  // namespace

std::string describe_out_of_memory(const OutOfMemoryNumbers& numbers) {
  const MemoryCounters& counters = numbers.counters;
  const std::uint64_t reserved = counters.bytes_reserved.current;
  const std::uint64_t active = counters.bytes_active.current;
  const std::uint64_t allocated = counters.bytes_allocated.current;
  std::string text = format_text(
      "{} is out of memory: asked for {}; reserved {}, of which {} live, {} freed but still in use "
      "by streams, {} cached (largest free block {})",
      numbers.allocator, exact(numbers.bytes_requested), format_bytes(reserved),
      format_bytes(allocated), format_bytes(active - allocated), format_bytes(reserved - active),
      format_bytes(numbers.largest_free_block_bytes));
  append_limit(text, numbers.bytes_reserved_max);
  append_granule(text, numbers);
  if (numbers.bytes_reserved_by_others > 0) {
    text += format_text("; other pools reserve {}", format_bytes(numbers.bytes_reserved_by_others));
  }
  append_headroom(text, numbers.headroom_bytes);
  append_driver_memory(text, numbers.driver_free_bytes, numbers.driver_total_bytes);
  if (numbers.is_refused_by_driver) text += "; the driver refused to give more";
  return text;
}

std::string describe_refused_wake(const RefusedWakeNumbers& numbers) {
  std::string text =
      format_text("{} cannot wake: it needs {}", numbers.allocator, exact(numbers.bytes_needed));
  append_limit(text, numbers.bytes_reserved_max);
  append_headroom(text, numbers.headroom_bytes);
  if (numbers.bytes_reserved_max != MemoryBudget::kNoLimit || numbers.headroom_bytes > 0) {
    text += format_text("; {} left to reserve", format_bytes(numbers.bytes_left));
  }
  append_driver_memory(text, numbers.driver_free_bytes, numbers.driver_total_bytes);
  return text + "; it is still asleep, and can be woken when memory is available";
}

std::string describe_impossible_request(const std::string& allocator, std::size_t bytes,
                                        std::size_t capacity_bytes, Capacity capacity) {
  const char* const bound = capacity == Capacity::limited           ? "the limit"
                            : capacity == Capacity::beside_headroom ? "what the headroom leaves"
                                                                    : "the capacity";
  return format_text("{} is out of memory: asked for {}{}, accepted: at most {}, which is {}",
                     allocator, exact(bytes), negative_hint(bytes), exact(capacity_bytes), bound);
}

std::string describe_capture_without_pool() {
  return " cannot serve a captured stream: its memory is reused by others while the graph may "
         "write "
         "to it; accepted: a pool created with MemoryPoolOptions::for_graphs, directly or through "
         "a "
         "PoolScope";
}

std::string describe_foreign_pointer(const std::string& allocator, const char* action,
                                     const void* data, const Block* covering) {
  return describe_refused_pointer(allocator, action, data, describe_place(data, covering));
}

std::string describe_refused_pointer(const std::string& allocator, const char* action,
                                     const void* data, const std::string& what) {
  return format_text("cannot {} {}: {}; accepted: the address of a live block of {}", action, data,
                     what, allocator);
}

std::string describe_inside(const void* data, const void* block) {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(block);
  return format_text("it points {} B into the live block at {}", offset, block);
}

}  // namespace berth
