// SPDX-License-Identifier: Apache-2.0
// What a copy may be asked for. All of it is checked before anything is submitted.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "berth/copier_options.hpp"
#include "berth/copy_range.hpp"

#include "copy/operand/memory_kind.hpp"

namespace berth {

// Errors  Of all: InvalidArgument, which names what is wrong and what is accepted.

void check_options(const CopierOptions& options);

/// How errors name the sides of a copy.
inline constexpr const char* kTargetName = "the target of a copy";
inline constexpr const char* kSourceName = "the source of a copy";
inline constexpr const char* kFillName = "the target of a fill";

/// `name` is for the error.
void check_range(const void* data, std::size_t bytes, std::string_view name);
/// Both sides, which do not overlap.
void check_ranges(const void* target, const void* source, std::size_t bytes);
/// `row_bytes` and `rows` are not 0.
void check_rows(const PitchedTarget& target, const PitchedSource& source, std::size_t row_bytes,
                std::size_t rows);
/// No target overlaps another target, or a source. Ranges of 0 bytes are none.
void check_batch(std::span<const CopyRange> ranges);

/// Whether it is a stream of the device of one side; any is where no side is a device's alone.
bool is_stream_of(const MemoryKind& to, const MemoryKind& from, StreamRef stream);
void require_stream_of(const MemoryKind& to, const MemoryKind& from, StreamRef stream);

/// `target` is memory that a stream can fill.
void require_filled_by(const MemoryKind& kind, const void* target, StreamRef stream);
/// A stream of the copier's own Runtime, which another one can be made to wait for.
void require_joinable(const DeviceRegistry& registry, StreamRef stream);

/// Asks no device that is not used: without a context there is no device memory yet, and looking
/// should not make one. Not in a forked child.
void require_host_memory(const DeviceRegistry& registry, const PinnedAllocator& pinned,
                         const void* data, std::size_t bytes, std::string_view name);

}  // namespace berth
