// SPDX-License-Identifier: Apache-2.0
#include "capi/capi_error.hpp"

#include <new>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "support/errors.hpp"

using namespace berth;
using namespace berth::capi;
using berth::test::contains;

namespace {

template <class Exception>
berth_status status_of(const Exception& thrown) {
  return guarded([&] { throw thrown; });
}

std::string last_message() {
  return berth_last_error_message();
}

}  // namespace

TEST_CASE("a call that does not throw returns BERTH_OK and keeps the last error") {
  status_of(InvalidArgument("before"));
  bool ran = false;
  CHECK(guarded([&] { ran = true; }) == BERTH_OK);
  CHECK(ran);
  CHECK(last_message() == "before");
}

TEST_CASE("each class of Error has a status of its own and keeps its message and driver code") {
  CHECK(status_of(InvalidArgument("a")) == BERTH_INVALID_ARGUMENT);
  CHECK(last_message() == "a");
  CHECK(berth_last_error_driver_code() == 0);
  CHECK(status_of(OutOfMemory("b", 2)) == BERTH_OUT_OF_MEMORY);
  CHECK(last_message() == "b");
  CHECK(berth_last_error_driver_code() == 2);
  CHECK(status_of(NotSupported("c", 801)) == BERTH_NOT_SUPPORTED);
  CHECK(berth_last_error_driver_code() == 801);
  CHECK(status_of(DriverError("d", 719)) == BERTH_DRIVER_ERROR);
  CHECK(berth_last_error_driver_code() == 719);
  CHECK(status_of(StreamCaptured("e")) == BERTH_STREAM_CAPTURED);
  CHECK(status_of(Cancelled("f")) == BERTH_CANCELLED);
  CHECK(status_of(FileError("g")) == BERTH_FILE);
  CHECK(berth_last_error_driver_code() == 0);
  CHECK(status_of(BackendError("h", 13)) == BERTH_BACKEND_ERROR);
  CHECK(berth_last_error_driver_code() == 13);
}

TEST_CASE("an Error thrown by its base class keeps the status of its code") {
  CHECK(status_of(Error(Errc::out_of_memory, "x", 2)) == BERTH_OUT_OF_MEMORY);
}

TEST_CASE("a failure of a function of the program has a status of its own") {
  CHECK(status_of(CallbackFailed("cuBLAS: bind() returned 13")) == BERTH_CALLBACK_FAILED);
  CHECK(last_message() == "cuBLAS: bind() returned 13");
}

TEST_CASE("a failure without a driver call clears the driver code of the one before") {
  status_of(DriverError("d", 719));
  status_of(std::runtime_error("e"));
  CHECK(berth_last_error_driver_code() == 0);
}

TEST_CASE("exhausted host memory is out of memory, distinguished from device memory") {
  CHECK(status_of(std::bad_alloc()) == BERTH_OUT_OF_MEMORY);
  CHECK(contains(last_message(), "host memory"));
}

TEST_CASE("any other exception is an internal error") {
  CHECK(status_of(std::logic_error("odd")) == BERTH_INTERNAL_ERROR);
  CHECK(last_message() == "odd");
  CHECK(status_of(42) == BERTH_INTERNAL_ERROR);
  CHECK(contains(last_message(), "std::exception"));
}

TEST_CASE("a message is whole up to 1023 bytes") {
  status_of(InvalidArgument(std::string(1023, 'x')));
  CHECK(last_message() == std::string(1023, 'x'));
  status_of(InvalidArgument(std::string(1024, 'x')));
  CHECK(last_message() == std::string(1020, 'x') + "...");
}

TEST_CASE("a longer message is not cut inside a character") {
  const std::string before(1019, 'x');
  status_of(InvalidArgument(before + "\u00e9" + before));  // its second byte would be the 1021st
  CHECK(last_message() == before + "...");
}
