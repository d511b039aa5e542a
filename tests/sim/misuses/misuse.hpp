// SPDX-License-Identifier: Apache-2.0
// Misuses of the driver: small pieces of host code, each written once, which are right, or with
// their plant make one mistake. The tables say how the simulator must report it.
#pragma once

#include <span>

#include "sim/misuses/machine.hpp"

namespace berth::test {

struct Misuse {
  const char* what;
  void (*program)(Machine&);
  /// A finding, in the simulator's words, but with the program's names for streams and ranges, and
  /// without the numbers of calls; or the first call that fails, and its code; or what is alive at
  /// the end, after "alive: ". A line each. Two uses that race stand in any order.
  const char* report;
  /// What it is instead where the work ran in an order in which there was a fault.
  const char* fault = nullptr;
  /// What else the simulator is configured with.
  const char* options = "";
};

// One table each, by what the mistake is about.
std::span<const Misuse> order_misuses();
std::span<const Misuse> lifetime_misuses();
std::span<const Misuse> pool_misuses();
std::span<const Misuse> address_misuses();
std::span<const Misuse> context_misuses();
std::span<const Misuse> handle_misuses();
std::span<const Misuse> graph_misuses();
std::span<const Misuse> leak_misuses();
std::span<const Misuse> progress_misuses();

}  // namespace berth::test
