// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "driver/driver_source.hpp"

namespace loader_test {

using namespace berth;

TEST_CASE("a missing library yields a source that names it") {
  const DriverSource source = open_driver_library("cuda", "libno-such-driver.so.1");
  CHECK_FALSE(source.resolve);
  CHECK(source.problem.find("libno-such-driver.so.1") != std::string::npos);
}

TEST_CASE("a library that is no CUDA driver is refused, and the error names the missing function") {
  const DriverSource source = open_driver_library("libz.so.1", "libz.so.1");
  CHECK_FALSE(source.resolve);
  CHECK(source.problem.find("cuGetProcAddress") != std::string::npos);
}

}  // namespace loader_test
