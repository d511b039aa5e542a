// SPDX-License-Identifier: Apache-2.0
// Checks of the arguments of copies, all before anything is submitted.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "berth/copier_options.hpp"
#include "berth/copy_range.hpp"

#include "copy/operand/memory_kind.hpp"

namespace berth {

// Errors  All functions: InvalidArgument.

void check_options(const CopierOptions& options);

/// Names of the sides of a copy in error messages.
inline constexpr const char* kTargetName = "the target of a copy";
inline constexpr const char* kSourceName = "the source of a copy";
inline constexpr const char* kFillName = "the target of a fill";

/// `name` is used in the error message.
void check_range(const void* data, std::size_t bytes, std::string_view name);
/// Both sides; they must not overlap.
void check_ranges(const void* target, const void* source, std::size_t bytes);
/// `row_bytes` and `rows` are not 0.
void check_rows(const PitchedTarget& target, const PitchedSource& source, std::size_t row_bytes,
                std::size_t rows);
/// No target may overlap another target or a source. Ranges of 0 bytes are ignored.
void check_batch(std::span<const CopyRange> ranges);

/// The names of a collective copy and its sides in error messages.
struct CollectiveNames {
  const char* collective;
  const char* whole;
  const char* shard;
};
inline constexpr CollectiveNames kScatterNames = {"scatter", "source", "target"};
inline constexpr CollectiveNames kGatherNames = {"gather", "target", "source"};
inline constexpr CollectiveNames kBroadcastNames = {"broadcast", "source", "target"};

/// There are shards.
void require_shards(const CollectiveNames& names, std::size_t shards);
/// `sum` is nullopt if it exceeds the largest number of bytes.
void require_sum(const CollectiveNames& names, std::size_t bytes, std::optional<std::size_t> sum);
/// There are shards, and together they have as many bytes as the whole.
template <class Shards, class BytesOf>
void require_sum(const CollectiveNames& names, std::size_t bytes, const Shards& shards,
                 const BytesOf& bytes_of) {
  require_shards(names, shards.size());
  std::optional<std::size_t> sum = 0;
  for (const auto& shard : shards)
    if (sum && __builtin_add_overflow(*sum, std::invoke(bytes_of, shard), &*sum)) sum.reset();
  require_sum(names, bytes, sum);
}

/// Whether `stream` belongs to the device of either side. True if neither side is device memory.
bool is_stream_of(const MemoryKind& to, const MemoryKind& from, StreamRef stream);
/// The same, of the copier's own Runtime.
void require_stream_of(const DeviceRegistry& registry, const MemoryKind& to, const MemoryKind& from,
                       StreamRef stream);

/// `target` is memory that a stream can fill.
void require_filled_by(const MemoryKind& kind, const void* target, StreamRef stream);

/// Queries only devices that are in use: a device without a context owns no memory, and the query
/// must not create a context. Not in a forked child.
void require_host_memory(const DeviceRegistry& registry, const OwnHostMemory& own, const void* data,
                         std::size_t bytes, std::string_view name);

}  // namespace berth
