// SPDX-License-Identifier: Apache-2.0
// The amount of free memory: growth ahead of need, and return of memory that is cached beyond the
// limit.
#include <algorithm>

#include "berth/bytes.hpp"

#include "base/arithmetic.hpp"
#include "base/format.hpp"
#include "pinned/pinned_heaps.hpp"

namespace berth {
namespace {

constexpr std::size_t kStepMax = 1_GiB;
/// The cache is measured again whenever this fraction of its limit has been freed.
constexpr std::size_t kStepsOfCache = 16;
/// After this many failures in a row, the delay before the next attempt no longer grows.
constexpr unsigned kPatienceMax = 10;

}  // namespace

void PinnedHeaps::request_growth(Heap& heap) noexcept {
  try {
    if (heap.allocator.free_bytes() >= options_.low_water_bytes) return;
    // An attempt costs as much as growth, and recent ones failed.
    for (std::uint64_t left = heap.requests_to_skip; left > 0;) {
      if (heap.requests_to_skip.compare_exchange_weak(left, left - 1)) return;
    }
    heap.needs_growth = true;
    background_.request();
  } catch (const std::exception& error) {  // no thread can be started
    note_failure(heap, error.what());
  }
}

void PinnedHeaps::run_in_background() noexcept {
  if (Heap* const freed = limits_cache_of_.exchange(nullptr)) return_excess(*freed);
  for_each([this](Heap& heap) {
    if (!background_.is_ending() && heap.needs_growth.exchange(false)) grow_ahead(heap);
  });
}

void PinnedHeaps::grow_ahead(Heap& heap) noexcept {
  try {
    for (;;) {
      const std::size_t free = heap.allocator.free_bytes();
      if (free >= options_.low_water_bytes) return;
      const std::size_t lacking = options_.low_water_bytes - free;
      const std::size_t bytes =
          align_up(std::clamp(lacking, options_.segment_bytes, kStepMax), 4_KiB);
      const CachingAllocator::GrowAheadResult outcome = heap.allocator.grow_ahead(bytes);
      if (outcome == CachingAllocator::GrowAheadResult::at_limit) return;
      if (outcome == CachingAllocator::GrowAheadResult::no_memory) {
        note_failure(heap, format_text("there is no memory for {} more", format_bytes(bytes)));
        return;
      }
      ++heap.grown_ahead;
      heap.failed_in_row = 0;
      if (background_.is_ending()) return;
    }
  } catch (const std::exception& error) {
    note_failure(heap, error.what());
  }
}

void PinnedHeaps::note_failure(Heap& heap, std::string_view why) noexcept {
  ++heap.failed_ahead;
  const unsigned failures = ++heap.failed_in_row;
  heap.requests_to_skip = (std::uint64_t{1} << std::min(failures - 1, kPatienceMax)) - 1;
  if (failures > 1) return;
  driver().report(Severity::warning, [&] {
    return format_text("{}: no memory was obtained ahead: {}", heap.allocator.name(), why);
  });
}

void PinnedHeaps::request_return(Heap* freed) noexcept {
  if (freed == nullptr || !may_exceed_cache(*freed)) return;
  limits_cache_of_ = freed;
  try {
    background_.request();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the next free tries again
  }
}

bool PinnedHeaps::may_exceed_cache(Heap& freed) {
  if (bytes_cached_max_ == MemoryBudget::kNoLimit) return false;
  const std::size_t step = bytes_cached_max_ / kStepsOfCache;
  std::size_t cached = 0;
  for_each([&](Heap& heap) { cached += heap.allocator.cached_bytes_estimate(); });
  const std::size_t stuck = stuck_bytes_;
  const bool is_beyond = cached > bytes_cached_max_ && (stuck == 0 || cached > stuck + step);
  return is_beyond || freed.allocator.has_freed(std::max<std::size_t>(step, 1));
}

void PinnedHeaps::return_excess(Heap& freed) noexcept {
  const std::size_t step = bytes_cached_max_ / kStepsOfCache;
  const std::size_t stuck = stuck_bytes_;
  try {
    std::size_t cached = 0;
    for_each([&](Heap& heap) { cached += heap.allocator.cached_bytes(); });
    if (cached <= bytes_cached_max_) {
      stuck_bytes_ = 0;
      return;
    }
    if (stuck > 0 && cached <= stuck + step) return;
    std::size_t excess = cached - bytes_cached_max_;
    const auto release = [&](Heap& heap) {
      if (excess > 0) excess -= std::min(excess, heap.allocator.try_release_cached(excess));
    };
    for_each([&](Heap& heap) {  // this one was used last
      if (&heap != &freed) release(heap);
    });
    release(freed);
    stuck_bytes_ = excess > 0 ? bytes_cached_max_ + excess : 0;
  } catch (const Error& error) {
    driver().report(Severity::warning, "pinned: cached memory could not be returned", error);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the next free tries again
  }
}

}  // namespace berth
