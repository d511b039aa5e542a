// SPDX-License-Identifier: Apache-2.0
// Decompression of untrusted gzip data.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace berth {

/// Whether the content begins with the signature of gzip.
bool is_gzip(std::string_view content);

/// The decompressed content, of all members if there are several. Decompresses twice, the first
/// time only to measure, so that the content never exists in two arrays at once, and content that
/// is too large is never stored.
/// Errors  InvalidArgument that names `name`: not gzip, damaged, truncated, followed by other data,
///         or more than `bytes_max`.
std::string gunzip(const std::string& name, std::string_view content, std::size_t bytes_max);

}  // namespace berth
