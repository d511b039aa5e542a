// SPDX-License-Identifier: Apache-2.0
// A scope without the variables of launchers, some of which may have started the tests. Not for
// tests with threads: the environment is the process's.
#pragma once

#include <deque>
#include <optional>

#include "device/local_rank_variables.hpp"
#include "support/environment.hpp"

namespace berth::test {

class NoLauncher {
 public:
  NoLauncher() {
    for (const char* const variable : kLocalRankVariables)
      unset_.emplace_back(variable, std::nullopt);
  }

 private:
  std::deque<ScopedEnvironment> unset_;
};

}  // namespace berth::test
