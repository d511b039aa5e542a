// SPDX-License-Identifier: Apache-2.0
#include "berth/bytes.hpp"

#include <string>

#include <doctest/doctest.h>

#include "berth/error.hpp"

namespace bytes_test {

using namespace berth;

TEST_CASE("byte counts print with at most four digits and a binary unit") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.00 KiB");
  CHECK(format_bytes(1536_MiB) == "1.50 GiB");
  CHECK(format_bytes(20_GiB) == "20.0 GiB");
  CHECK(format_bytes(1024_MiB - 1) == "1.00 GiB");
  CHECK(format_bytes(~0ull) == "16777216 TiB");
}

TEST_CASE("byte counts parse with any known unit") {
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("512") == 512);
  CHECK(parse_bytes("64KiB") == 64_KiB);
  CHECK(parse_bytes("64k") == 64_KiB);
  CHECK(parse_bytes("1.5 GiB") == 1536_MiB);
  CHECK(parse_bytes(".5mb") == 512_KiB);
  CHECK(parse_bytes("18446744073709551615") == ~0ull);
  CHECK(parse_bytes("80 GB") == 80_GiB);
}

TEST_CASE("text that is no byte count is refused, and the error quotes it") {
  for (const std::string text :
       {"", " ", "-1", "+1", "abc", "1x", "1KiBs", "1ib", "1bb", "1..2", ".",
        "18446744073709551616", "16777216TiB", "1 2", "1GiB ", "nan", "1e3"}) {
    CAPTURE(text);
    try {
      parse_bytes(text);
      FAIL_CHECK("accepted");
    } catch (const InvalidArgument& error) {
      CHECK(std::string(error.what()).find('"' + text + '"') != std::string::npos);
      CHECK(std::string(error.what()).find("accepted") != std::string::npos);
    }
  }
}

}  // namespace bytes_test
