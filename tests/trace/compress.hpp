// SPDX-License-Identifier: Apache-2.0
// gzip data for tests.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <zlib.h>

namespace berth::test {

inline std::string gzip(std::string_view plain) {
  z_stream stream{};
  constexpr int gzip_format = MAX_WBITS + 16;
  const auto require = [](bool truth) {
    if (!truth) throw std::runtime_error("zlib does not compress");
  };
  require(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, gzip_format, MAX_MEM_LEVEL,
                       Z_DEFAULT_STRATEGY) == Z_OK);
  std::string compressed(deflateBound(&stream, static_cast<uLong>(plain.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

}  // namespace berth::test
