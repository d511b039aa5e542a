// SPDX-License-Identifier: Apache-2.0
// How much host memory the reading of one trace may take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "berth/trace.hpp"

namespace berth {

inline constexpr std::uint64_t kTraceHostBytesMax = TraceOptions().host_bytes_max;

/// "reading needs more than 4.00 GiB of host memory ...", for errors that have named the place.
std::string describe_host_limit(std::uint64_t bytes_max);
/// The same for content that exceeds the limit by itself.
std::string describe_large_content(std::uint64_t bytes_max);

/// What `vector` holds at the most while one element is appended: an array that is full is copied
/// into one of twice its size.
template <class T>
std::uint64_t bytes_to_push(const std::vector<T>& vector) {
  const bool grows = vector.size() == vector.capacity();
  return std::uint64_t{grows ? 3u : 1u} * vector.capacity() * sizeof(T);
}

}  // namespace berth
