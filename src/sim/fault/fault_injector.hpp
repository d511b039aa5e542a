// SPDX-License-Identifier: Apache-2.0
// Applies a fault plan, call by call. Guarded by sim::mutex.
#pragma once

#include <cstdint>

#include "sim/fault/fault_plan.hpp"
#include "sim/random.hpp"

namespace berth::sim {

class FaultInjector {
 public:
  FaultInjector(const FaultPlan& plan, std::uint64_t seed) : plan_(plan), random_(seed) {}

  [[nodiscard]] bool has_rules() const { return !plan_.rules().empty(); }
  /// The fault of call `nth` of `function`, which is call `nth_of_all` of all functions.
  std::optional<Fault> at_call(Function function, std::uint64_t nth, std::uint64_t nth_of_all);

  /// Whether any call had a fault.
  [[nodiscard]] bool has_fired() const { return has_fired_; }

 private:
  const FaultPlan& plan_;
  Random random_;
  bool has_fired_ = false;
};

}  // namespace berth::sim
