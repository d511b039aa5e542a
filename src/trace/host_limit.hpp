// SPDX-License-Identifier: Apache-2.0
// The limit of host memory for reading one trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "berth/trace.hpp"

namespace berth {

inline constexpr std::uint64_t kTraceHostBytesMax = TraceOptions().host_bytes_max;

/// "reading needs more than 4.00 GiB of host memory ...", for errors that already name the place.
std::string describe_host_limit(std::uint64_t bytes_max);
/// The same for content that exceeds the limit by itself.
std::string describe_large_content(std::uint64_t bytes_max);

/// The maximum memory of `vector` while one element is appended: a full array is copied into one of
/// twice its size.
template <class T>
std::uint64_t bytes_to_push(const std::vector<T>& vector) {
  const bool grows = vector.size() == vector.capacity();
  return std::uint64_t{grows ? 3u : 1u} * vector.capacity() * sizeof(T);
}

}  // namespace berth
