// SPDX-License-Identifier: Apache-2.0
// Decompression of untrusted gzip data.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace berth {

/// Whether the content says of itself that it is gzip.
bool is_gzip(std::string_view content);

/// The decompressed content, of all members if there are several. Decompresses twice, first only to
/// measure: the content then never exists in two arrays at once, and nothing is kept of one that is
/// too large.
/// Errors  InvalidArgument that names `name`: not gzip, damaged, cut off, followed by something
///         else, or more than `bytes_max`.
std::string gunzip(const std::string& name, std::string_view content, std::size_t bytes_max);

}  // namespace berth
