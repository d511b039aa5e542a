// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/ranges_copy.hpp"

#include <cstdint>
#include <cstring>
#include <optional>

#include "base/arithmetic.hpp"
#include "base/check.hpp"
#include "base/process_memory.hpp"
#include "copy/operand/packed_host.hpp"
#include "copy/operand/readable_memory.hpp"

namespace berth {
namespace {

/// `require` is require_readable() or require_writable(). A check takes 100 ns, and many small
/// ranges often lie in one page, for all bytes of which the result is the same.
/// Source: mprotect(2).
template <class Require>
void check_each(const Scattered& ranges, std::size_t bytes, const Require& require) {
  std::optional<std::uintptr_t> checked_page;
  const auto check = [&](const std::byte* data, std::size_t, std::size_t range_bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    const auto last_page = align_down(begin + range_bytes - 1, kPageBytes);
    const bool is_in_checked_page = begin >= last_page && checked_page == last_page;
    if (is_in_checked_page) return;
    require(data, range_bytes);
    checked_page = last_page;
  };
  ranges.for_each_stretch(0, bytes, check);
}

}  // namespace

void Scattered::add(std::byte* data, std::size_t bytes, bool adjoins) {
  if (adjoins) {
    ranges_.back().bytes += bytes;
    return;
  }
  const std::size_t offset = ranges_.empty() ? 0 : ranges_.back().offset + ranges_.back().bytes;
  ranges_.push_back({data, bytes, offset});
}

std::size_t Scattered::index_of(std::size_t offset) const {
  const auto behind = std::ranges::upper_bound(ranges_, offset, {}, &Range::offset);
  BERTH_CHECK(behind != ranges_.begin());
  BERTH_CHECK(offset - behind[-1].offset < behind[-1].bytes);  // within the packed ranges
  return static_cast<std::size_t>(behind - ranges_.begin()) - 1;
}

void ScatteredDevice::submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                                   StreamRef stream) {
  std::vector<CopyRange> parts;
  ranges_.for_each_stretch(offset, bytes,
                           [&](std::byte* data, std::size_t position, std::size_t stretch) {
                             parts.push_back({data, staging + position, stretch});
                           });
  submit_ranges(parts, {}, batching_, stream);
}

void ScatteredDevice::submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                                  StreamRef stream) {
  std::vector<CopyRange> parts;
  ranges_.for_each_stretch(offset, bytes,
                           [&](const std::byte* data, std::size_t position, std::size_t stretch) {
                             parts.push_back({staging + position, data, stretch});
                           });
  submit_ranges(parts, {}, batching_, stream);
}

std::size_t ScatteredDevice::entries_max(std::size_t offset, std::size_t bytes,
                                         StreamRef stream) const {
  const bool has_batches = takes_batch({}, stream);
  if (has_batches && batching_.includes_all()) return 1;
  std::size_t single = 0;
  std::size_t batched = 0;
  ranges_.for_each_stretch(offset, bytes, [&](const std::byte*, std::size_t, std::size_t stretch) {
    ++(has_batches && batching_.includes(stretch) ? batched : single);
  });
  return single + (batched > 0 ? 1 : 0);
}

void RangesCopy::add(const CopyRange& range, Adjoins adjoins) {
  if (adjoins.target && adjoins.source)
    ranges_.back().bytes += range.bytes;
  else
    ranges_.push_back(range);
  targets_.add(static_cast<std::byte*>(range.target), range.bytes, adjoins.target);
  // The pointer is not const, but a source is never written.
  auto* const source = static_cast<std::byte*>(const_cast<void*>(range.source));
  sources_.add(source, range.bytes, adjoins.source);
  bytes_ += range.bytes;
}

void RangesCopy::add_block(const PinnedBlock& block) {
  if (blocks_.empty() || blocks_.back() != block) blocks_.push_back(block);
}

void RangesCopy::check_pageable() const {
  if (to().is_pageable()) check_each(targets_, bytes_, require_writable);
  if (from().is_pageable()) check_each(sources_, bytes_, require_readable);
}

void RangesCopy::copy_on_host() const {
  for (const CopyRange& range : ranges_) std::memcpy(range.target, range.source, range.bytes);
}

void RangesCopy::submit(DirectSubmission& submission) const {
  submission.add_ranges(ranges_);
}

std::unique_ptr<HostSide> RangesCopy::host_side(CopyDirection direction) const {
  return std::make_unique<PackedHost<Scattered>>(direction == CopyDirection::to_device ? sources_
                                                                                       : targets_);
}

std::unique_ptr<DeviceSide> RangesCopy::device_side(CopyDirection direction) const {
  const bool is_target = direction == CopyDirection::to_device;
  return std::make_unique<ScatteredDevice>(is_target ? targets_ : sources_, batching_);
}

void RangesCopy::record_blocks_before(PinnedAllocator& own, StreamRef stream) const {
  for (const PinnedBlock& block : blocks_) block.record_before(own, stream);
}

void RangesCopy::keep_blocks_for_graph(PinnedAllocator& own, StreamRef stream) const {
  for (const PinnedBlock& block : blocks_) block.keep_for_graph(own, stream);
}

void RangesCopy::record_blocks_after(StreamRef stream) const {
  for (const PinnedBlock& block : blocks_) block.record_after(stream);
}

}  // namespace berth
