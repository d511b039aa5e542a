// SPDX-License-Identifier: Apache-2.0
#include "sim/fault/fault_injector.hpp"

namespace berth::sim {
namespace {

/// Chances are multiples of a millionth.
constexpr std::uint64_t kChances = 1'000'000;

}  // namespace

std::optional<Fault> FaultInjector::at_call(Function function, std::uint64_t nth,
                                            std::uint64_t nth_of_all) {
  for (const FaultRule& rule : plan_.rules()) {
    if (rule.function ? *rule.function != function : function == Function::k_cuInit) continue;
    const std::uint64_t number = rule.function ? nth : nth_of_all;
    if (number < rule.first || number > rule.last) continue;
    const auto bound = static_cast<std::uint64_t>(rule.percent / 100 * double{kChances});
    if (rule.percent < 100 && random_.below(kChances) >= bound) continue;
    has_fired_ = true;
    return rule.fault;
  }
  return std::nullopt;
}

}  // namespace berth::sim
