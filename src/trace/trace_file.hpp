// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace berth {

/// The content of a regular file. A pipe, a device or a directory is rejected without waiting for a
/// writer.
/// Errors  InvalidArgument that names `path`: not a regular file, not readable, or larger than
///         `host_bytes_max`.
std::string read_trace_file(const std::string& path, std::uint64_t host_bytes_max);

}  // namespace berth
