// SPDX-License-Identifier: Apache-2.0
#include "collective/collective_sides.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/check.hpp"
#include "base/format.hpp"
#include "copy/copy_arguments.hpp"
#include "device/device_context.hpp"
#include "device/own_context.hpp"
#include "stream/capture.hpp"

namespace berth {
namespace {

const CollectiveNames& names_of(Collective collective) {
  switch (collective) {
    case Collective::scatter:
      return kScatterNames;
    case Collective::gather:
      return kGatherNames;
    case Collective::broadcast:
      break;
  }
  return kBroadcastNames;
}

struct Range {
  std::string name;
  const void* data;
  std::size_t bytes;

  [[nodiscard]] std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(data); }
  [[nodiscard]] std::uintptr_t end() const { return begin() + bytes; }
};

[[noreturn]] void refuse_overlap(const Range& one, const Range& other) {
  throw InvalidArgument(
      format_text("{} ({}, {} B) and {} ({}, {} B) overlap; accepted: ranges that do not", one.name,
                  one.data, one.bytes, other.name, other.data, other.bytes));
}

bool overlap(const Range& one, const Range& other) {
  return one.begin() < other.end() && other.begin() < one.end();
}

void check_overlaps(Collective collective, const Range& whole, std::vector<Range> shards) {
  for (const Range& shard : shards) {
    if (overlap(whole, shard)) refuse_overlap(whole, shard);
  }
  if (collective == Collective::gather) return;  // sources may overlap
  std::ranges::sort(shards, {}, &Range::begin);
  for (std::size_t next = 1; next < shards.size(); ++next) {
    if (overlap(shards[next - 1], shards[next])) refuse_overlap(shards[next - 1], shards[next]);
  }
}

void check_equal(const CollectiveNames& names, std::size_t bytes, std::span<const Shard> shards) {
  for (std::size_t index = 0; index < shards.size(); ++index) {
    if (shards[index].bytes == bytes) continue;
    throw InvalidArgument(
        format_text("{} {} of a {} of {} B has {} B; accepted: {} of the {}'s size", names.shard,
                    index, names.collective, bytes, shards[index].bytes, names.shard, names.whole));
  }
}

void require_stream_of_device(const std::string& name, const CollectiveSide& side) {
  if (side.kind.type == MemoryKind::Type::managed) {
    throw InvalidArgument(format_text(
        "{} is managed memory, which is of no device alone; accepted: memory of a device or of the "
        "host",
        name));
  }
  if (side.is_host() || side.device() == &side.stream.context()) return;
  throw InvalidArgument(format_text(
      "{} is memory of {}, and its stream one of {}; accepted: a stream of the memory's "
      "device",
      name, side.device()->device().to_string(),
      side.stream.context().name_beside(*side.device())));
}

/// A shard in host memory is copied by the device that owns the whole.
void check_host_shard(const std::string& name, const CollectiveSide& shard,
                      const CollectiveSide& whole, const CollectiveNames& names) {
  if (!shard.is_host()) return;
  if (whole.is_host()) {
    throw InvalidArgument(
        format_text("{} and the {} of a {} are both host memory; accepted: device memory on one "
                    "side, since a copy on the host is in no stream's order",
                    name, names.whole, names.collective));
  }
  if (whole.device() == &shard.stream.context()) return;
  throw InvalidArgument(format_text(
      "{} is host memory, and its stream one of {}; accepted: a stream of {}, whose memory the {} "
      "is",
      name, shard.stream.context().name_beside(*whole.device()),
      whole.device()->device().to_string(), names.whole));
}

}  // namespace

std::vector<StreamRef> CollectiveSides::streams() const {
  std::vector<StreamRef> streams{whole.stream};
  for (const CollectiveSide& shard : shards) {
    if (std::ranges::find(streams, shard.stream) == streams.end()) streams.push_back(shard.stream);
  }
  return streams;
}

std::size_t CollectiveSides::bytes_of_shards() const {
  std::size_t bytes = 0;
  for (const CollectiveSide& shard : shards) bytes += shard.bytes;
  return bytes;
}

CollectiveSides find_sides(const DeviceRegistry& registry, const OwnHostMemory& own,
                           Collective collective, void* whole, std::size_t bytes, StreamRef stream,
                           std::span<const Shard> shards) {
  const CollectiveNames& names = names_of(collective);
  require_shards(names, shards.size());
  if (collective == Collective::broadcast)
    check_equal(names, bytes, shards);
  else
    require_sum(names, bytes, shards, &Shard::bytes);

  const auto find = [&](const Range& side, StreamRef its) {
    require_own_context(registry, its.context(), "part of a collective copy");
    const ContextScope scope(its.context());
    void* const data = const_cast<void*>(side.data);
    const AllocationInfo place =
        find_allocation(registry, own, its.context().driver(), data, side.bytes);
    require_within(place, data, side.bytes, side.name);
    return CollectiveSide{{static_cast<std::byte*>(data), place.kind}, side.bytes, its};
  };
  if (bytes == 0) return {{{nullptr, {}}, 0, stream}, {}};
  const Range range{format_text("the {} of a {}", names.whole, names.collective), whole, bytes};
  check_range(range.data, range.bytes, range.name);
  std::vector<Range> ranges;
  for (std::size_t index = 0; index < shards.size(); ++index) {
    if (shards[index].bytes == 0) continue;
    ranges.push_back({format_text("{} {} of a {}", names.shard, index, names.collective),
                      shards[index].data, shards[index].bytes});
    check_range(ranges.back().data, ranges.back().bytes, ranges.back().name);
  }
  check_overlaps(collective, range, ranges);

  CollectiveSides sides{find(range, stream), {}};
  require_stream_of_device(range.name, sides.whole);
  for (const Shard& shard : shards) {
    if (shard.bytes == 0) continue;
    BERTH_CHECK(sides.shards.size() < ranges.size());  // a range for each shard that has bytes
    const std::string& name = ranges[sides.shards.size()].name;
    sides.shards.push_back(find(ranges[sides.shards.size()], shard.stream));
    require_stream_of_device(name, sides.shards.back());
    check_host_shard(name, sides.shards.back(), sides.whole, names);
  }
  for (const StreamRef used : sides.streams()) {
    if (is_capturing(used)) refuse_captured(used, "part of a collective copy");
  }
  return sides;
}

}  // namespace berth
