// SPDX-License-Identifier: Apache-2.0
#include "trace/gzip.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <vector>
#include <zlib.h>

#include <fmt/format.h>

#include "berth/bytes.hpp"

#include "base/check.hpp"
#include "trace/trace_error.hpp"

namespace berth {
namespace {

constexpr std::size_t kGzipChunkBytes = 256_KiB;
constexpr int kWindowBitsGzipOnly = MAX_WBITS + 16;

/// Owns the state of one zlib stream.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, kWindowBitsGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

}  // namespace

bool is_gzip(std::string_view content) {
  return content.starts_with("\x1f\x8b");
}

std::string gunzip(const std::string& name, std::string_view content, std::size_t bytes_max) {
  Inflater inflater;
  z_stream& stream = inflater.stream();
  std::string plain;
  std::vector<char> chunk(kGzipChunkBytes);
  for (;;) {
    const auto offered =
        static_cast<uInt>(std::min<std::size_t>(content.size(), std::numeric_limits<uInt>::max()));
    stream.next_in = reinterpret_cast<z_const Bytef*>(const_cast<char*>(content.data()));
    stream.avail_in = offered;
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    const int result = inflate(&stream, Z_NO_FLUSH);
    content.remove_prefix(offered - stream.avail_in);
    plain.append(chunk.data(), chunk.size() - stream.avail_out);

    if (plain.size() > bytes_max)
      reject_trace(name, fmt::format("more than {} after decompression; accepted: at most that",
                                     format_bytes(bytes_max)));
    if (result == Z_STREAM_END) {
      if (content.empty()) return plain;
      if (!is_gzip(content))
        reject_trace(name, "something follows the compressed data; accepted: gzip data to the end");
      BERTH_CHECK(inflateReset(&stream) == Z_OK);
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result == Z_BUF_ERROR) {
      // All input is used, and the end has not come.
      reject_trace(name, "gzip data that is cut off; accepted: a complete file");
    } else if (result != Z_OK) {
      reject_trace(name, fmt::format("damaged gzip data ({}); accepted: an undamaged file",
                                     stream.msg != nullptr ? stream.msg : "unknown cause"));
    }
  }
}

}  // namespace berth
