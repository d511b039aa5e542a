// SPDX-License-Identifier: Apache-2.0
#include "copy/copy_arguments.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/check_choice.hpp"
#include "base/counted.hpp"
#include "base/format.hpp"
#include "copy/staged/copy_workers.hpp"
#include "copy/staged/staging_memory.hpp"
#include "device/device_context.hpp"
#include "device/own_context.hpp"

namespace berth {
namespace {

std::uintptr_t address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

void check_piece(const char* option, std::size_t bytes, std::size_t most, const char* accepted) {
  if (bytes >= 64_KiB && bytes <= most && bytes % 4_KiB == 0) return;
  throw InvalidArgument(format_text("CopierOptions::{} is {}; accepted: {}, a multiple of 4 KiB",
                                    option, bytes, accepted));
}

void check_workers(const char* option, std::size_t workers) {
  if (workers >= 1 && workers <= CopyWorkers::kMax) return;
  throw InvalidArgument(format_text("CopierOptions::{} is {}; accepted: 1 to {}", option, workers,
                                    CopyWorkers::kMax));
}

/// Bytes from the beginning of the first row to the end of the last.
std::size_t extent(const void* data, std::size_t pitch, std::size_t row_bytes, std::size_t rows,
                   const char* name) {
  if (pitch < row_bytes) {
    throw InvalidArgument(format_text(
        "{} has a pitch of {} B for rows of {} B; accepted: at least the bytes of a row", name,
        pitch, row_bytes));
  }
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(rows - 1, pitch, &bytes) ||
      __builtin_add_overflow(bytes, row_bytes, &bytes)) {
    throw InvalidArgument(format_text(
        "{} has {} rows a pitch of {} B apart; accepted: a range that does not wrap around", name,
        rows, pitch));
  }
  check_range(data, bytes, name);
  return bytes;
}

/// Whether rows of one pitch that begin at `to` and at `from` have no column in common.
bool are_other_columns(std::uintptr_t to, std::uintptr_t from, std::size_t pitch,
                       std::size_t row_bytes) {
  const std::size_t shift = (std::max(to, from) - std::min(to, from)) % pitch;
  return shift >= row_bytes && pitch - shift >= row_bytes;
}

struct Extent {
  std::uintptr_t begin;
  std::uintptr_t end;
};

[[noreturn]] void refuse_overlap(const char* side, const Extent& a, const Extent& b) {
  throw InvalidArgument(
      format_text("a target of a batch, {:#x} with {} B, overlaps a {} at {:#x} with {} B; "
                  "accepted: targets that "
                  "overlap nothing else of the batch",
                  a.begin, a.end - a.begin, side, b.begin, b.end - b.begin));
}

/// `stream` belongs to another device than `owner`, which owns the memory.
[[noreturn]] void refuse_stream(StreamRef stream, const DeviceContext& owner, const char* verb,
                                const char* accepted) {
  const DeviceContext& device = stream.context();
  if (device.device() == owner.device()) {
    throw InvalidArgument(format_text(
        "a stream of {} cannot {} memory of {} of the copier's own Runtime; accepted: {}",
        device.name_beside(owner), verb, owner.device().to_string(), kOwnStream));
  }
  throw InvalidArgument(format_text("a stream of {} cannot {} memory of {}; accepted: {}",
                                    device.device().to_string(), verb, owner.device().to_string(),
                                    accepted));
}

}  // namespace

void check_options(const CopierOptions& options) {
  static_assert(StagingMemory::kSlotBytesMax == 1_GiB);
  check_piece("staging_slot_bytes", options.staging_slot_bytes, StagingMemory::kSlotBytesMax,
              "64 KiB to 1 GiB");
  check_piece("direct_piece_bytes", options.direct_piece_bytes,
              std::numeric_limits<std::size_t>::max(), "64 KiB or more");
  if (options.staging_slots < 2 || options.staging_slots > StagingMemory::kSlotsMax) {
    throw InvalidArgument(format_text("CopierOptions::staging_slots is {}; accepted: 2 to {}",
                                      options.staging_slots, StagingMemory::kSlotsMax));
  }
  check_choice("CopierOptions::staging_on_shortage", options.staging_on_shortage,
               {"share", "grow", "fall_back"});
  check_choice("CopierOptions::gates", options.gates, {"automatic", "on", "off"});
  check_workers("workers", options.workers.value_or(1));
  check_workers("file_workers", options.file_workers);
}

void check_range(const void* data, std::size_t bytes, std::string_view name) {
  if (data == nullptr || address(data) + bytes < address(data)) {
    throw InvalidArgument(
        format_text("{} is {} with {} B{}; accepted: an address that is not null, and a range that "
                    "does not wrap around",
                    name, data, bytes, negative_hint(bytes)));
  }
}

void check_ranges(const void* target, const void* source, std::size_t bytes) {
  check_range(target, bytes, kTargetName);
  check_range(source, bytes, kSourceName);
  const std::uintptr_t to = address(target);
  const std::uintptr_t from = address(source);
  if (std::max(to, from) - std::min(to, from) < bytes) {
    throw InvalidArgument(format_text(
        "target {} and source {} of a copy of {} B overlap; accepted: ranges that do not", target,
        source, bytes));
  }
}

void check_rows(const PitchedTarget& target, const PitchedSource& source, std::size_t row_bytes,
                std::size_t rows) {
  const std::size_t target_bytes = extent(target.data, target.pitch, row_bytes, rows, kTargetName);
  const std::size_t source_bytes = extent(source.data, source.pitch, row_bytes, rows, kSourceName);
  const std::uintptr_t to = address(target.data);
  const std::uintptr_t from = address(source.data);
  if (to + target_bytes <= from || from + source_bytes <= to) return;
  if (target.pitch == source.pitch && are_other_columns(to, from, target.pitch, row_bytes)) return;
  throw InvalidArgument(format_text(
      "target {} and source {} of a copy of {} rows of {} B, {} and {} B apart, overlap; accepted: "
      "ranges that do not, or other columns of the same pitch",
      target.data, source.data, rows, row_bytes, target.pitch, source.pitch));
}

void check_batch(std::span<const CopyRange> ranges) {
  std::vector<Extent> targets;
  for (const CopyRange& range : ranges) {
    if (range.bytes == 0) continue;
    check_ranges(range.target, range.source, range.bytes);
    targets.push_back({address(range.target), address(range.target) + range.bytes});
  }
  if (!std::ranges::is_sorted(targets, {}, &Extent::begin))
    std::ranges::sort(targets, {}, &Extent::begin);
  const auto overlapping = std::ranges::adjacent_find(
      targets, [](const Extent& a, const Extent& b) { return b.begin < a.end; });
  if (overlapping != targets.end()) refuse_overlap("target", overlapping[0], overlapping[1]);
  for (const CopyRange& range : ranges) {
    if (range.bytes == 0) continue;
    const Extent source{address(range.source), address(range.source) + range.bytes};
    const auto behind = std::ranges::lower_bound(targets, source.end, {}, &Extent::begin);
    if (behind != targets.begin() && behind[-1].end > source.begin)
      refuse_overlap("source", behind[-1], source);
  }
}

void require_shards(const CollectiveNames& names, std::size_t shards) {
  if (shards > 0) return;
  throw InvalidArgument(
      format_text("a {} without {}s; accepted: one or more", names.collective, names.shard));
}

void require_sum(const CollectiveNames& names, std::size_t bytes, std::optional<std::size_t> sum) {
  if (sum == bytes) return;
  throw InvalidArgument(format_text(
      "the {} of a {} has {} B, and its {}s have {}; accepted: as many on both sides", names.whole,
      names.collective, bytes, names.shard, sum ? format_text("{} B", *sum) : "more"));
}

bool is_stream_of(const MemoryKind& to, const MemoryKind& from, StreamRef stream) {
  const DeviceContext* device = &stream.context();
  if (to.device == nullptr && from.device == nullptr) return true;
  return to.device == device || from.device == device;
}

void require_stream_of(const DeviceRegistry& registry, const MemoryKind& to, const MemoryKind& from,
                       StreamRef stream) {
  if (to.device == nullptr && from.device == nullptr)
    return require_own_context(registry, stream.context(), "given a copy");
  if (is_stream_of(to, from, stream)) return;
  const DeviceContext& other = to.device != nullptr ? *to.device : *from.device;
  refuse_stream(stream, other, "copy", "a stream of a device on either side");
}

void require_filled_by(const MemoryKind& kind, const void* target, StreamRef stream) {
  if (kind.type == MemoryKind::Type::managed || kind.device == &stream.context()) return;
  if (kind.device != nullptr)
    refuse_stream(stream, *kind.device, "fill", "a stream of that device");
  throw InvalidArgument(format_text(
      "{} is no memory of a device, but {}; accepted: memory of a device, or managed memory",
      target,
      kind.is_pinned() ? "pinned host memory, which no stream fills"
                       : "host memory, which no stream fills, or memory that was freed"));
}

void require_host_memory(const DeviceRegistry& registry, const OwnHostMemory& own, const void* data,
                         std::size_t bytes, std::string_view name) {
  for (int ordinal = 0; ordinal < registry.count(); ++ordinal) {
    DeviceContext& context = registry.context(Device::cuda(ordinal));
    if (!context.is_used()) continue;
    const ContextScope scope(context);
    if (!is_known_to_driver(context.driver(), data)) return;
    const AllocationInfo place = find_allocation(registry, own, context.driver(), data, bytes);
    require_within(place, data, bytes, name);
    if (place.kind.type != MemoryKind::Type::device) return;
    throw InvalidArgument(format_text("{} is memory of {}; accepted without a stream: host memory",
                                      data, place.kind.device->device().to_string()));
  }
}

}  // namespace berth
