// SPDX-License-Identifier: Apache-2.0
// The entry point for traces: reads the file, decompresses it, and recognizes its format.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "berth/trace.hpp"

#include "trace/gzip.hpp"
#include "trace/host_limit.hpp"
#include "trace/json_reader.hpp"
#include "trace/pickle_reader.hpp"
#include "trace/plain_data.hpp"
#include "trace/snapshot_trace.hpp"
#include "trace/trace_csv.hpp"
#include "trace/trace_error.hpp"
#include "trace/trace_file.hpp"

namespace berth {
namespace {

/// The rest of `host_bytes_max` after the file's content.
std::uint64_t left_beside(std::uint64_t host_bytes_max, std::size_t content_bytes) {
  return host_bytes_max - std::min<std::uint64_t>(host_bytes_max, content_bytes);
}

Trace parse_json(const std::string& name, std::string_view content, std::uint64_t host_bytes_max) {
  PlainData data;
  const PlainValue root = read_json(name, content, data, {.host_bytes = host_bytes_max});
  return trace_from_snapshot(name, "JSON", data, root, host_bytes_max);
}

Trace parse_pickle(const std::string& name, std::string_view content,
                   std::uint64_t host_bytes_max) {
  PlainData data;
  const PlainValue root = read_pickle(name, content, data, {.host_bytes = host_bytes_max});
  return trace_from_snapshot(name, "pickle", data, root, host_bytes_max);
}

/// Pickles of protocol 2 and above begin with their protocol; older ones with the opcodes that make
/// a list or a dictionary.
bool is_pickle(std::string_view content) {
  return content.starts_with('\x80') || content.starts_with("}q") || content.starts_with("]q") ||
         content.starts_with("(d") || content.starts_with("(l");
}

bool is_json(std::string_view content) {
  const auto begin = content.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && (content[begin] == '{' || content[begin] == '[');
}

Trace parse_plain(const std::string& name, std::string_view content, std::uint64_t host_bytes_max) {
  if (content.size() > host_bytes_max) reject_trace(name, describe_large_content(host_bytes_max));
  host_bytes_max = left_beside(host_bytes_max, content.size());
  if (content.empty())
    reject_trace(name,
                 "empty; accepted: berth's own trace, or a PyTorch memory snapshot as pickle "
                 "or JSON, each plain or compressed by gzip");
  if (is_pickle(content)) return parse_pickle(name, content, host_bytes_max);
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (content.starts_with(byte_order_mark)) content.remove_prefix(byte_order_mark.size());
  if (is_json(content)) return parse_json(name, content, host_bytes_max);
  return parse_trace_csv(name, content, host_bytes_max);
}

}  // namespace

Trace read_trace(const std::string& path, const TraceOptions& options) {
  std::string content = read_trace_file(path, options.host_bytes_max);
  if (is_gzip(content))
    content = gunzip(path, content, left_beside(options.host_bytes_max, content.size()));
  return parse_plain(path, content, options.host_bytes_max);
}

Trace parse_trace(const std::string& name, std::string_view content, const TraceOptions& options) {
  if (!is_gzip(content)) return parse_plain(name, content, options.host_bytes_max);
  const std::uint64_t left = left_beside(options.host_bytes_max, content.size());
  return parse_plain(name, gunzip(name, content, left), left);
}

}  // namespace berth
