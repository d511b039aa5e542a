// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "capi/capi_allocator.hpp"
#include "capi/capi_convert.hpp"
#include "capi/capi_error.hpp"

using namespace berth;
using namespace berth::capi;

static_assert(int(PinnedKind::portable) == BERTH_PINNED_PORTABLE);
static_assert(int(PinnedKind::write_combined) == BERTH_PINNED_WRITE_COMBINED);
static_assert(int(PinnedKind::registered) == BERTH_PINNED_REGISTERED);

namespace {

PinnedAllocator& to_pinned_allocator(berth_allocator* allocator) {
  if (auto* const pinned = as_kind<PinnedAllocator>(to_allocator(allocator))) return *pinned;
  throw InvalidArgument(
      "\"allocator\" is not the pinned allocator; accepted: the result of "
      "berth_allocator_get_pinned()");
}

PinnedOptions to_options(const berth_pinned_options& from) {
  check_flags(from.flags, BERTH_PINNED_NO_WAIT, "options.flags");
  if (from.kind < BERTH_PINNED_PORTABLE || from.kind > BERTH_PINNED_REGISTERED) {
    throw InvalidArgument("\"options.kind\" is " + std::to_string(from.kind) +
                          "; accepted: BERTH_PINNED_PORTABLE, BERTH_PINNED_WRITE_COMBINED");
  }
  PinnedOptions options;
  const Device near = to_device(from.near, "options.near");
  if (!near.is_cpu()) options.near = near;
  options.kind = static_cast<PinnedKind>(from.kind);
  options.may_wait = (from.flags & BERTH_PINNED_NO_WAIT) == 0;
  return options;
}

}  // namespace

berth_status berth_allocator_allocate_pinned(berth_allocator* allocator, std::size_t bytes,
                                             void** data) {
  return guarded([&] {
    PinnedAllocator& pinned = to_pinned_allocator(allocator);
    auto& out = require(data, "data");
    out = pinned.allocate_raw(bytes);
  });
}

berth_status berth_allocator_allocate_pinned_with(berth_allocator* allocator, std::size_t bytes,
                                                  const berth_pinned_options* options,
                                                  void** data) {
  return guarded([&] {
    PinnedAllocator& pinned = to_pinned_allocator(allocator);
    const PinnedOptions chosen = to_options(read_struct(options, "options"));
    auto& out = require(data, "data");
    out = pinned.allocate_raw(bytes, chosen);
  });
}

berth_status berth_allocator_keep_for_graph(berth_allocator* allocator, void* data,
                                            berth_stream stream) {
  return guarded([&] {
    PinnedAllocator& pinned = to_pinned_allocator(allocator);
    if (data == nullptr) refuse_null("data");
    pinned.keep_for_graph(data, to_stream(stream));
  });
}

berth_status berth_allocator_register_pinned(berth_allocator* allocator, void* data,
                                             std::size_t bytes) {
  return guarded([&] { to_pinned_allocator(allocator).register_raw(data, bytes); });
}

berth_status berth_allocator_unregister_pinned(berth_allocator* allocator, void* data) {
  return guarded([&] { to_pinned_allocator(allocator).unregister(data); });
}

berth_status berth_allocator_find_pinned(berth_allocator* allocator, const void* data,
                                         void** block) {
  return guarded([&] {
    const PinnedAllocator& pinned = to_pinned_allocator(allocator);
    auto& out = require(block, "block");
    out = pinned.find_block(data);
  });
}

berth_status berth_allocator_get_pinned_range(berth_allocator* allocator, const void* data,
                                              berth_pinned_range* range) {
  return guarded([&] {
    const PinnedAllocator& pinned = to_pinned_allocator(allocator);
    auto& out = require_struct(range, "range");
    const PinnedRange found =
        pinned.find(data).value_or(PinnedRange{nullptr, 0, PinnedKind::portable, std::nullopt});
    write_struct({.struct_size = 0,
                  .data = found.data,
                  .bytes = found.bytes,
                  .kind = int(found.kind),
                  .numa_node = found.numa_node.value_or(-1)},
                 out);
  });
}

berth_status berth_allocator_get_pinned_counters(berth_allocator* allocator,
                                                 berth_pinned_counters* counters) {
  return guarded([&] {
    const PinnedAllocator& pinned = to_pinned_allocator(allocator);
    auto& out = require_struct(counters, "counters");
    const PinnedGrowthCounters growth = pinned.growth_counters();
    write_struct({.struct_size = 0,
                  .segments_by_callers = growth.segments_by_callers,
                  .segments_in_background = growth.segments_in_background,
                  .failures_in_background = growth.failures_in_background,
                  .segments_registered = growth.segments_registered,
                  .segments_from_driver = growth.segments_from_driver,
                  .bytes_registered = pinned.bytes_registered()},
                 out);
  });
}

berth_status berth_allocator_finish_background_work(berth_allocator* allocator) {
  return guarded([&] { to_pinned_allocator(allocator).finish_background_work(); });
}
