// SPDX-License-Identifier: Apache-2.0
#include "trace/gzip.hpp"

#include <random>
#include <string>

#include <doctest/doctest.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "support/errors.hpp"
#include "trace/compress.hpp"

namespace gzip_test {

using namespace berth;
using namespace berth::test;

namespace {

std::string noise(std::size_t bytes) {
  std::mt19937 random(7);
  std::string result(bytes, '\0');
  for (char& byte : result) byte = static_cast<char>(random());
  return result;
}

}  // namespace

TEST_CASE("compressed data is decompressed unchanged") {
  for (const std::string& plain :
       {std::string(), std::string("x"), std::string(3_MiB, 'x'), noise(1_MiB + 1)}) {
    CAPTURE(plain.size());
    const std::string compressed = gzip(plain);
    CHECK(is_gzip(compressed));
    CHECK(gunzip("x", compressed, 4_MiB) == plain);
  }
}

TEST_CASE("several members follow one another") {
  CHECK(gunzip("x", gzip("one,") + gzip("") + gzip("two"), 100) == "one,two");
}

TEST_CASE("compressed data is refused wherever it is cut off") {
  const std::string whole = gzip(noise(1000));
  for (std::size_t size = 2; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(message_of<InvalidArgument>([&] { return gunzip("x", whole.substr(0, size), 4_MiB); }) ==
          "x: gzip data that is cut off; accepted: a complete file");
  }
}

TEST_CASE("compressed data that is damaged is refused") {
  std::string damaged = gzip("some content that has a checksum");
  damaged[damaged.size() - 6] ^= 1;
  CHECK(contains(message_of<InvalidArgument>([&] { return gunzip("x", damaged, 4_MiB); }),
                 "x: damaged gzip data (incorrect data check)"));
}

TEST_CASE("trailing bytes other than gzip data are refused") {
  CHECK(contains(message_of<InvalidArgument>([] { return gunzip("x", gzip("a") + "b", 10); }),
                 "trailing bytes after the compressed data"));
}

TEST_CASE("decompression stops at the limit") {
  const std::string bomb = gzip(std::string(64_MiB, '\0'));
  CHECK(bomb.size() < 1_MiB);
  CHECK(contains(message_of<InvalidArgument>([&] { return gunzip("x", bomb, 1_MiB); }),
                 "x: after decompression the content is larger than 1.00 MiB; accepted: "));
  CHECK(gunzip("x", gzip("four"), 4) == "four");
  CHECK_THROWS_AS(gunzip("x", gzip("five5"), 4), InvalidArgument);
}

TEST_CASE("only data with gzip's magic bytes is recognized as gzip") {
  CHECK_FALSE(is_gzip(""));
  CHECK_FALSE(is_gzip("\x1f"));
  CHECK_FALSE(is_gzip("op,id"));
}

}  // namespace gzip_test
