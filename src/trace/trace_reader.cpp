// SPDX-License-Identifier: Apache-2.0
// The entry to traces: gets the bytes, undoes compression, and tells the formats apart.
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/trace.hpp"

#include "trace/gzip.hpp"
#include "trace/json_reader.hpp"
#include "trace/pickle_reader.hpp"
#include "trace/plain_data.hpp"
#include "trace/snapshot_trace.hpp"
#include "trace/trace_csv.hpp"
#include "trace/trace_error.hpp"

namespace berth {
namespace {

constexpr std::size_t kTraceBytesMax = 4_GiB;
constexpr std::size_t kReadBytes = 1_MiB;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string read_file(const std::string& path) {
  const auto reject = [&path](int error) {
    reject_trace(
        path, fmt::format("cannot be read: {}; accepted: a readable file", std::strerror(error)));
  };
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) reject(errno);
  std::string content;
  std::vector<char> chunk(kReadBytes);
  while (const std::size_t size = std::fread(chunk.data(), 1, chunk.size(), file.get())) {
    content.append(chunk.data(), size);
    if (content.size() > kTraceBytesMax) break;  // refused by its size, like any content
  }
  if (std::ferror(file.get()) != 0) reject(errno);
  return content;
}

Trace parse_json(const std::string& name, std::string_view content) {
  PlainData data;
  const PlainValue root = read_json(name, content, data);
  return trace_from_snapshot(name, "JSON", data, root);
}

Trace parse_pickle(const std::string& name, std::string_view content) {
  PlainData data;
  const PlainValue root = read_pickle(name, content, data);
  return trace_from_snapshot(name, "pickle", data, root);
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

Trace parse_plain(const std::string& name, std::string_view content) {
  if (content.size() > kTraceBytesMax)
    reject_trace(name, "more than 4 GiB; accepted: at most that, after decompression too");
  if (content.empty())
    reject_trace(name,
                 "empty; accepted: berth's own trace, or a PyTorch memory snapshot as pickle "
                 "or JSON, each plain or compressed by gzip");
  if (is_pickle(content)) return parse_pickle(name, content);
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (content.starts_with(byte_order_mark)) content.remove_prefix(byte_order_mark.size());
  if (is_json(content)) return parse_json(name, content);
  return parse_trace_csv(name, content);
}

}  // namespace

Trace read_trace(const std::string& path) {
  std::string content = read_file(path);
  if (is_gzip(content)) content = gunzip(path, content, kTraceBytesMax);
  return parse_plain(path, content);
}

Trace parse_trace(const std::string& name, std::string_view content) {
  if (is_gzip(content)) return parse_plain(name, gunzip(name, content, kTraceBytesMax));
  return parse_plain(name, content);
}

}  // namespace berth
