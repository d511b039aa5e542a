// SPDX-License-Identifier: Apache-2.0
// Content for copies, compiled with optimization, unlike the tests, which copy gigabytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace berth::test {

/// Bytes that differ from those at any nearby or power-of-two distance.
std::vector<unsigned char> pattern(std::size_t bytes, std::uint64_t seed);

}  // namespace berth::test
