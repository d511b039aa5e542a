// SPDX-License-Identifier: Apache-2.0
#include "berth/error.hpp"

#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <doctest/doctest.h>

#include "support/errors.hpp"

namespace error_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("a refused empty object is named with its article") {
  const auto text = [](const char* what) {
    return message_of<InvalidArgument>([&] { detail::refuse_empty(what); });
  };
  CHECK(contains(text("event"), "one that has an event"));
  CHECK(contains(text("stream"), "one that has a stream"));
}

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

namespace {

/// Which of the handlers, in this order, gets the exception, and the message that it sees.
template <class First, class Second, class Third>
std::string handled(const auto& exception) {
  try {
    throw exception;
  } catch (const First& error) {
    return std::string("first: ") + error.what();
  } catch (const Second& error) {
    return std::string("second: ") + error.what();
  } catch (const Third& error) {
    return std::string("third: ") + error.what();
  } catch (...) {
    return "none";
  }
}

template <class E>
constexpr bool is_one_exception =
    std::is_convertible_v<const E*, const std::exception*>&& std::is_convertible_v<E*, Error*>;

}  // namespace

static_assert(!std::is_base_of_v<std::exception, Error>);
static_assert(std::is_nothrow_copy_constructible_v<Error>);
static_assert(std::is_nothrow_copy_constructible_v<OutOfMemory>);
static_assert(is_one_exception<OutOfMemory> && std::is_base_of_v<std::bad_alloc, OutOfMemory>);
static_assert(is_one_exception<InvalidArgument> && is_one_exception<NotSupported> &&
              is_one_exception<DriverError> && is_one_exception<Exhausted> &&
              is_one_exception<StreamCaptured> && is_one_exception<Cancelled> &&
              is_one_exception<FileError> && is_one_exception<BackendError>);

TEST_CASE("the error for an empty object names the object and not its contents") {
  try {
    detail::refuse_empty("file");
    FAIL("nothing was thrown");
  } catch (const InvalidArgument& error) {
    CHECK(std::string(error.what()) ==
          "the file object is empty: it was default-constructed, moved from or released; accepted: "
          "one that has a file");
  }
}

TEST_CASE("OutOfMemory is caught as itself, Error, std::bad_alloc and std::exception") {
  const OutOfMemory error("full", 2);
  CHECK(handled<DriverError, OutOfMemory, Error>(error) == "second: full");
  CHECK(handled<Error, std::bad_alloc, std::exception>(error) == "first: full");
  CHECK(handled<std::bad_alloc, Error, std::exception>(error) == "first: full");
  CHECK(handled<std::runtime_error, std::bad_alloc, std::exception>(error) == "second: full");
  CHECK(handled<std::runtime_error, std::logic_error, std::exception>(error) == "third: full");
}

TEST_CASE("every other error is caught as itself, Error, std::runtime_error and std::exception") {
  const auto check = [](const auto& error) {
    using E = std::decay_t<decltype(error)>;
    CHECK(handled<std::bad_alloc, E, Error>(error) == "second: text");
    CHECK(handled<std::bad_alloc, Error, std::exception>(error) == "second: text");
    CHECK(handled<std::bad_alloc, std::runtime_error, Error>(error) == "second: text");
    CHECK(handled<std::bad_alloc, std::logic_error, std::exception>(error) == "third: text");
  };
  check(InvalidArgument("text"));
  check(NotSupported("text"));
  check(DriverError("text", 719));
  check(Exhausted("text"));
  check(StreamCaptured("text"));
  check(Cancelled("text"));
  check(FileError("text"));
  check(BackendError("text", 13));
}

TEST_CASE("a std::bad_alloc of the host is not caught as Error") {
  CHECK(handled<Error, std::bad_alloc, std::exception>(std::bad_alloc()).starts_with("second: "));
}

TEST_CASE("the error that a Result rethrows is a standard exception with its message") {
  Result<int> failed(OutOfMemory("full"));
  try {
    failed.value();
    FAIL("nothing was thrown");
  } catch (const std::exception& error) {
    CHECK(std::string(error.what()) == "full");
    CHECK(dynamic_cast<const std::bad_alloc*>(&error) != nullptr);
  }
}

TEST_CASE("a Result carries values that can only be moved") {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  REQUIRE(result.ok());
  const std::unique_ptr<int> taken = std::move(result).value();
  CHECK(*taken == 7);
}

}  // namespace error_test
