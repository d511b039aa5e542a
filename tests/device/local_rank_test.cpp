// SPDX-License-Identifier: Apache-2.0
// The rank that a launcher gave this process, from the environment.
#include "berth/local_rank.hpp"

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "berth/error.hpp"

#include "device/local_rank_variables.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/no_launcher.hpp"

namespace local_rank_test {

using namespace berth;
using namespace berth::test;

TEST_CASE("without a launcher there is no local rank") {
  const NoLauncher none;
  CHECK_FALSE(local_rank().has_value());
}

TEST_CASE("each launcher's variable provides the rank, and is named") {
  const NoLauncher none;
  int rank = 3;
  for (const char* const variable : kLocalRankVariables) {
    const ScopedEnvironment launched(variable, std::to_string(rank));
    const auto local = local_rank();
    REQUIRE(local.has_value());
    CHECK(local->rank == rank);
    CHECK(std::string(local->variable) == variable);
    ++rank;
  }
}

TEST_CASE("the innermost of nested launchers determines the rank, and the others are not read") {
  const NoLauncher none;
  const ScopedEnvironment slurm("SLURM_LOCALID", "0");
  const ScopedEnvironment torchrun("LOCAL_RANK", "5");
  CHECK(local_rank().value().rank == 5);
  const ScopedEnvironment broken("OMPI_COMM_WORLD_LOCAL_RANK", "x");
  CHECK(local_rank().value().rank == 5);
  const ScopedEnvironment unset("LOCAL_RANK", std::nullopt);
  CHECK_THROWS_AS(local_rank(), InvalidArgument);
}

TEST_CASE("a rank consists of digits only, and one that is too large is refused") {
  const NoLauncher none;
  for (const char* text : {"", " 1", "1 ", "+1", "-1", "0x1", "one", "1,2", "2147483648",
                           "99999999999999999999", "1\n"}) {
    CAPTURE(text);
    const ScopedEnvironment launched("LOCAL_RANK", text);
    const std::string message = message_of<InvalidArgument>([] { return local_rank(); });
    CHECK(contains(message, "LOCAL_RANK=\""));
    CHECK(contains(message, "accepted: a number from 0 to 2147483647"));
  }
  const ScopedEnvironment largest("LOCAL_RANK", "2147483647");
  CHECK(local_rank().value().rank == 2147483647);
}

}  // namespace local_rank_test
