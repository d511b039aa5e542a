// SPDX-License-Identifier: Apache-2.0
#include "sim/fault/fault_plan.hpp"

#include <algorithm>
#include <charconv>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/quoted.hpp"
#include "sim/error_names.hpp"

namespace berth::sim {
namespace {

constexpr std::string_view kErrorPrefix = "CUDA_ERROR_";

/// Thrown with the accepted values; parse() adds the rule.
struct RejectedRule {
  std::string_view accepted;
};

template <class T>
T number(std::string_view text, T smallest, T largest, std::string_view accepted) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || !(value >= smallest && value <= largest)) throw RejectedRule{accepted};
  return value;
}

/// Calls that need no simulator, and whose results do not depend on it.
constexpr Function kNeverFailing[] = {Function::k_cuDriverGetVersion, Function::k_cuGetErrorName,
                                      Function::k_cuGetErrorString, Function::k_cuGetExportTable};

std::optional<Function> parse_function(std::string_view name) {
  if (name == "*") return std::nullopt;
  for (const Function function : kNeverFailing)
    if (name == function_name(function))
      throw RejectedRule{
          "a function other than cuDriverGetVersion, cuGetErrorName, cuGetErrorString and "
          "cuGetExportTable, which have no faults"};
  for (std::size_t i = 0; i < static_cast<std::size_t>(Function::count); ++i)
    if (name == function_name(static_cast<Function>(i))) return static_cast<Function>(i);
  throw RejectedRule{"the name of a simulated function such as cuMemCreate, or * for any"};
}

/// Reads which calls `rule` applies to.
void parse_when(std::string_view text, FaultRule& rule) {
  const auto mark = text.find_first_of("@%");
  rule.function = parse_function(text.substr(0, mark));
  if (mark == std::string_view::npos) return;
  std::string_view amount = text.substr(mark + 1);
  if (text[mark] == '%') {
    rule.percent = number(amount, 0.0, 100.0, "a chance after %, in percent from 0 to 100");
    return;
  }
  const bool and_later = amount.ends_with('+');
  if (and_later) amount.remove_suffix(1);
  rule.first = number<std::uint64_t>(
      amount, 1, UINT64_MAX, "the number of a call after @, from 1, with + for later ones too");
  if (!and_later) rule.last = rule.first;
}

CUresult parse_code(std::string_view name) {
  const auto same = [](char a, char b) { return a == (b >= 'a' && b <= 'z' ? b - 'a' + 'A' : b); };
  for (int code = 1; code <= CUDA_ERROR_UNKNOWN; ++code) {
    const ErrorName* known = find_error_name(static_cast<CUresult>(code));
    if (known == nullptr) continue;
    const std::string_view whole = known->name;
    const std::string_view base = whole.substr(kErrorPrefix.size());
    if (std::ranges::equal(base, name, same)) return known->code;
  }
  throw RejectedRule{"an error such as out_of_memory, slow:NS, memory:BYTES, or lost:DEVICE"};
}

Fault parse_fault(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (colon == std::string_view::npos) return {Fault::Kind::refused, parse_code(text), 0};
  const std::string_view amount = text.substr(colon + 1);
  if (kind == "slow")
    return {Fault::Kind::slow, CUDA_SUCCESS,
            number<std::uint64_t>(amount, 1, 1'000'000'000'000, "slow: and 1 to 10^12 ns")};
  if (kind == "lost")
    return {Fault::Kind::lost, CUDA_SUCCESS,
            number<std::uint64_t>(amount, 0, 63, "lost: and the slot of a device, 0 to 63")};
  if (kind != "memory") return {Fault::Kind::refused, parse_code(text), 0};
  try {
    return {Fault::Kind::less_memory, CUDA_SUCCESS, parse_bytes(amount)};
  } catch (const InvalidArgument&) {
    throw RejectedRule{"memory: and bytes such as 1GiB"};
  }
}

}  // namespace

FaultPlan FaultPlan::parse(std::string_view text) {
  FaultPlan plan;
  plan.text_ = text;
  while (!text.empty()) {
    const std::string_view rule_text = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), rule_text.size() + 1));
    try {
      const auto equals = rule_text.find('=');
      if (equals == std::string_view::npos)
        throw RejectedRule{"rules of the form FUNCTION@N=error"};
      FaultRule rule;
      parse_when(rule_text.substr(0, equals), rule);
      rule.fault = parse_fault(rule_text.substr(equals + 1));
      plan.rules_.push_back(rule);
    } catch (const RejectedRule& rejected) {
      throw InvalidArgument(format_text("simulator: faults: {} is not accepted; accepted: {}",
                                        quoted(rule_text), rejected.accepted));
    }
  }
  return plan;
}

}  // namespace berth::sim
