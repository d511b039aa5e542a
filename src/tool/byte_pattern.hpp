// SPDX-License-Identifier: Apache-2.0
// The content of copies that are checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace berth::tool {

/// Bytes that differ for every seed and position.
void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed);
/// The number of bytes that differ from the pattern.
std::uint64_t bytes_different(std::span<const std::byte> got, std::span<const std::byte> expected);

}  // namespace berth::tool
