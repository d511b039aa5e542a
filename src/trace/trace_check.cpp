// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_check.hpp"

#include "base/format.hpp"

namespace berth {

std::optional<std::string> TraceChecker::add(const TraceEvent& event, std::size_t place) {
  switch (event.op) {
    case TraceOp::init_alloc:
    case TraceOp::alloc:
      return add_allocation(event, place);
    case TraceOp::free:
    case TraceOp::free_requested:
    case TraceOp::free_completed:
      return add_free(event, place);
    case TraceOp::init_segment:
    case TraceOp::segment_alloc:
    case TraceOp::segment_free:
    case TraceOp::segment_map:
    case TraceOp::segment_unmap:
    case TraceOp::reserved_total:
    case TraceOp::out_of_memory:
    case TraceOp::snapshot:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> TraceChecker::add_allocation(const TraceEvent& event,
                                                        std::size_t place) {
  const auto [entry, is_new] =
      blocks_.try_emplace(event.id, Block{event.bytes, place, place, event.device, State::live});
  if (!is_new)
    return format_text("block {} is allocated again, first in {} {}; accepted: a new id", event.id,
                       place_, entry->second.place_allocated);
  if (__builtin_add_overflow(bytes_live_, event.bytes, &bytes_live_))
    return format_text("block {} of {} bytes; accepted: less than 2^64 bytes live at once",
                       event.id, event.bytes);
  return std::nullopt;
}

std::optional<std::string> TraceChecker::add_free(const TraceEvent& event, std::size_t place) {
  const auto entry = blocks_.find(event.id);
  if (entry == blocks_.end())
    return format_text(
        "block {} is freed, but was never allocated; accepted: the id of a live block", event.id);
  Block& block = entry->second;
  if (block.state == State::freed)
    return format_text(
        "block {} is freed again, first in {} {}; accepted: one free for each allocation", event.id,
        place_, block.place_freed);
  if (block.bytes != event.bytes)
    return format_text(
        "block {} is freed with {} bytes; accepted: the {} of {} {}, where it was "
        "allocated",
        event.id, event.bytes, block.bytes, place_, block.place_allocated);
  if (block.device != event.device)
    return format_text("block {} is freed on device {}; accepted: device {}, as in {} {}", event.id,
                       event.device, block.device, place_, block.place_allocated);

  const bool is_completion = event.op == TraceOp::free_completed;
  if (block.state == State::live && is_completion)
    return format_text(
        "free_completed of block {}, whose free was not requested; accepted: "
        "free_requested first, or free",
        event.id);
  if (block.state == State::free_requested && !is_completion)
    return format_text(
        "block {} is freed, but its free was requested in {} {}; accepted: "
        "free_completed",
        event.id, place_, block.place_freed);

  block.place_freed = place;
  if (event.op == TraceOp::free_requested) {
    block.state = State::free_requested;
  } else {
    block.state = State::freed;
    bytes_live_ -= block.bytes;
  }
  return std::nullopt;
}

}  // namespace berth
