// SPDX-License-Identifier: Apache-2.0
// Blocks that captured graphs read or write, and that become free when the graphs are destroyed.

#include "berth/error.hpp"

#include "base/format.hpp"
#include "memory/gauge.hpp"
#include "memory/order/stream_order.hpp"

namespace berth {

void StreamOrder::keep_for_graph(void* data, StreamRef stream) {
  constexpr const char* kAction = "keep for a graph";
  if (hold_for(capture_of(stream), data, stream, kAction)) return;
  throw InvalidArgument(
      format_text("{}: {} cannot be kept for a graph, because no graph is being captured on the "
                  "stream of {}; accepted: a stream in a valid capture, or record_use() instead",
                  heap_.name, data, stream.device().to_string()));
}

bool StreamOrder::hold_for(const CaptureState& capture, void* data, StreamRef stream,
                           const char* action) {
  if (capture.graph != nullptr && GraphHolds::are_supported(driver_)) {
    hold_for_graph(capture, data, stream, action);
    return true;
  }
  // An older driver reports neither the graph nor its end.
  const bool reports_graph = driver_.has(DriverCall::stream_get_capture_info);
  const bool is_captured = reports_graph ? capture.graph != nullptr : capture.is_capturing;
  if (!is_captured || stream.is_legacy_default()) return false;
  hold_permanently(data, action);
  return true;
}

void StreamOrder::hold_for_graph(const CaptureState& capture, void* data, StreamRef stream,
                                 const char* action) {
  GraphHolds::HoldPtr made;
  const GraphHolds::Hold* attached = nullptr;
  Block* block = nullptr;
  {
    const MutexLock lock(heap_.mutex);
    block = &heap_.require_live(data, action);
    if (holds_.has(*block, capture.id)) return;
    made = holds_.make(*block);
    hold(*block);
    attached = made.get();
    holds_.begin();
  }
  try {
    const ContextScope scope(stream.context());
    holds_.attach(made, capture);
  } catch (...) {
    if (made != nullptr) {
      const MutexLock lock(heap_.mutex);
      holds_.cancel();
      release_hold(*block);
    }
    throw;
  }
  const MutexLock lock(heap_.mutex);
  holds_.record_attached(*block, capture.id, attached);
}

void StreamOrder::hold_permanently(void* data, const char* action) {
  const MutexLock lock(heap_.mutex);
  Block& block = heap_.require_live(data, action);
  if (holds_.is_permanent(block)) return;
  hold(block);
  try {
    holds_.mark_permanent(block);
  } catch (...) {
    release_hold(block);
    throw;
  }
}

void StreamOrder::hold(Block& block) {
  const bool is_first = !uses_.is_held(block);
  uses_.hold(block);
  if (is_first) raise_gauge(heap_.counters.blocks_in_graphs, 1);
}

void StreamOrder::release_hold(Block& block) noexcept {
  const bool is_ready = uses_.release_hold(block);
  if (!uses_.is_held(block)) lower_gauge(heap_.counters.blocks_in_graphs, 1);
  if (is_ready) release_deferred(block);
}

std::size_t StreamOrder::release_unheld() noexcept {
  const std::uint64_t before = heap_.counters.frees_reclaimed;
  holds_.collect([this](Block& block) BERTH_UNDER_LOCK { release_hold(block); });
  const std::uint64_t released = heap_.counters.frees_reclaimed - before;
  if (released > 0) heap_.count_blocks();
  return static_cast<std::size_t>(released);
}

}  // namespace berth
