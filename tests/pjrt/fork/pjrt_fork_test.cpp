// SPDX-License-Identifier: Apache-2.0
// A process that forks while another thread opens its first plug-in.
#include <array>
#include <cstdlib>
#include <future>
#include <stdexcept>
#include <string>
#include <unistd.h>

#include <doctest/doctest.h>

#include "berth/pjrt.hpp"

#include "support/child_process.hpp"

namespace pjrt_fork_test {

using namespace berth;
using namespace berth::test;

namespace {

bool is_opened() {
  try {
    static_cast<void>(open_pjrt({.type = "tpu", .path = "a plug-in"}));
  } catch (const std::runtime_error& error) {
    return std::string(error.what()) == "opened";
  }
  return false;
}

struct Pipe {
  explicit Pipe(const char* variable, int end) {
    REQUIRE(pipe(ends.data()) == 0);
    REQUIRE(setenv(variable, std::to_string(ends[std::size_t(end)]).c_str(), 1) == 0);
  }
  std::array<int, 2> ends{};
};

}  // namespace

TEST_CASE("a child forked while a thread loads libberth_pjrt does not wait for that thread") {
  const Pipe loading("BERTH_TEST_LOADING", 1);
  const Pipe may_load("BERTH_TEST_MAY_LOAD", 0);
  auto opening = std::async(std::launch::async, is_opened);
  char byte = 0;
  REQUIRE(read(loading.ends[0], &byte, 1) == 1);
  CHECK(exit_code_without_waiting(is_opened) == 0);
  REQUIRE(write(may_load.ends[1], &byte, 1) == 1);
  CHECK(opening.get());
  CHECK(is_opened());
}

}  // namespace pjrt_fork_test
