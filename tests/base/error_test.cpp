// SPDX-License-Identifier: Apache-2.0
#include "berth/error.hpp"

#include <memory>
#include <string>

#include <doctest/doctest.h>

namespace error_test {

using namespace berth;

TEST_CASE("a Result rethrows its error as the class that was put in") {
  CHECK_THROWS_AS(Result<int>(InvalidArgument("x")).value(), InvalidArgument);
  CHECK_THROWS_AS(Result<int>(OutOfMemory("x")).value(), OutOfMemory);
  CHECK_THROWS_AS(Result<int>(NotSupported("x")).value(), NotSupported);
  CHECK_THROWS_AS(Result<int>(DriverError("x", 2)).value(), DriverError);
  CHECK_THROWS_AS(Result<int>(StreamCaptured("x")).value(), StreamCaptured);
  CHECK_THROWS_AS(Result<int>(Cancelled("x")).value(), Cancelled);
  CHECK_THROWS_AS(Result<int>(FileError("x")).value(), FileError);
}

TEST_CASE("a raised error keeps its message and its driver code") {
  try {
    Result<int>(DriverError("cuMemAlloc failed", 719)).value();
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "cuMemAlloc failed");
    CHECK(error.driver_code() == 719);
    CHECK(error.code() == Errc::driver);
  }
}

TEST_CASE("a Result carries values that can only be moved") {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  REQUIRE(result.ok());
  const std::unique_ptr<int> taken = std::move(result).value();
  CHECK(*taken == 7);
}

}  // namespace error_test
