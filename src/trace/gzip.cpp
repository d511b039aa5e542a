// SPDX-License-Identifier: Apache-2.0
#include "trace/gzip.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <vector>
#include <zlib.h>

#include "base/check.hpp"
#include "base/format.hpp"
#include "trace/host_limit.hpp"
#include "trace/trace_error.hpp"

namespace berth {

bool is_gzip(std::string_view content) {
  return content.starts_with("\x1f\x8b");
}

namespace {

constexpr std::size_t kGzipChunkBytes = std::size_t{256} << 10;
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

/// Passes the decompressed content to `take`, piece by piece.
template <class Take>
void inflate_all(const std::string& name, std::string_view content, const Take& take) {
  Inflater inflater;
  z_stream& stream = inflater.stream();
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
    take(std::string_view(chunk.data(), chunk.size() - stream.avail_out));

    if (result == Z_STREAM_END) {
      if (content.empty()) return;
      if (!is_gzip(content))
        reject_trace(name, "trailing bytes after the compressed data; accepted: only gzip data");
      BERTH_CHECK(inflateReset(&stream) == Z_OK);
    } else if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (result == Z_BUF_ERROR) {
      // The input ended before the end of the gzip stream.
      reject_trace(name, "gzip data that is cut off; accepted: a complete file");
    } else if (result != Z_OK) {
      reject_trace(name, format_text("damaged gzip data ({}); accepted: an undamaged file",
                                     stream.msg != nullptr ? stream.msg : "unknown cause"));
    }
  }
}

}  // namespace

std::string gunzip(const std::string& name, std::string_view content, std::size_t bytes_max) {
  std::size_t bytes = 0;
  inflate_all(name, content, [&](std::string_view piece) {
    bytes += piece.size();
    if (bytes > bytes_max)
      reject_trace(name, "after decompression " + describe_large_content(bytes_max));
  });
  std::string plain;
  plain.reserve(bytes);
  inflate_all(name, content, [&](std::string_view piece) { plain += piece; });
  return plain;
}

}  // namespace berth
