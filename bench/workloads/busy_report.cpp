// SPDX-License-Identifier: Apache-2.0
#include "workloads/busy_report.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace berth::bench {
namespace {

constexpr std::array<std::string_view, 20> kColumns = {
    "trace",    "live MiB", "bound 1 %", "bound %", "its bound %", "waste 1 %", "waste %",
    "grew",     "calls 1",  "calls 4",   "calls",   "records",     "queries",   "waits",
    "calls/op", "ns",       "p99.9",     "grown",   "passed",      "refused"};

constexpr std::size_t kPassFour = 3;

std::uint64_t queries(const BusyPassFigures& pass) {
  return pass.calls_of(DriverCall::event_query) + pass.calls_of(DriverCall::stream_query);
}

double calls_per_operation_at_last(const BusyFigures& figures) {
  const std::size_t operations = std::max<std::size_t>(figures.operations / 4, 1);
  return static_cast<double>(total(figures.passes.front().calls_last_quarter)) /
         static_cast<double>(operations);
}

nlohmann::ordered_json calls_json(const DriverCalls& calls) {
  auto object = nlohmann::ordered_json::object();
  for (std::size_t index = 0; index < calls.size(); ++index)
    if (calls[index] != 0) object[kDriverCallNames[index]] = calls[index];
  return object;
}

nlohmann::ordered_json counters_json(const MemoryCounters& counters) {
  auto object = nlohmann::ordered_json::object();
#define BERTH_FIELD(name, help) object[#name "_peak"] = counters.name.peak;
  BERTH_MEMORY_GAUGES(BERTH_FIELD)
#undef BERTH_FIELD
#define BERTH_FIELD(name, help) object[#name] = counters.name;
  BERTH_MEMORY_TOTALS(BERTH_FIELD)
#undef BERTH_FIELD
  return object;
}

nlohmann::ordered_json pass_json(const BusyPassFigures& pass) {
  nlohmann::ordered_json object;
  object["bytes_live_peak"] = pass.bytes_live_peak;
  object["bytes_reserved_peak"] = pass.bytes_reserved_peak;
  object["bound"] = pass.bound;
  object["bound_in_its_time"] = pass.bound_in_its_time;
  object["driver_calls"] = total(pass.calls);
  object["driver_calls_by_function"] = calls_json(pass.calls);
  object["driver_calls_last_quarter"] = total(pass.calls_last_quarter);
  object["counters"] = nullptr;
  if (pass.counters) object["counters"] = counters_json(*pass.counters);
  object["refused"] = pass.refused;
  object["virtual_ns"] = pass.virtual_ns;
  object["mean_ns"] = pass.mean_ns;
  object["p999_ns"] = pass.p999_ns;
  return object;
}

}  // namespace

std::string busy_header() {
  std::string names = "|";
  std::string rule = "|";
  for (const std::string_view& column : kColumns) {
    names += fmt::format(" {} |", column);
    rule += &column == kColumns.data() ? "---|" : "---:|";
  }
  return names + "\n" + rule + "\n";
}

std::string busy_row(const BusyFigures& figures) {
  const BusyPassFigures& first = figures.passes.front();
  const BusyPassFigures& last = figures.passes.back();
  const bool has_fourth = figures.passes.size() > kPassFour;
  std::uint64_t refused = 0;
  for (const BusyPassFigures& pass : figures.passes) refused += pass.refused;
  return fmt::format(
      "| {} | {:.0f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {} | {} | {} | {} | {} | {} | "
      "{} | "
      "{:.2f} | "
      "{:.0f} | "
      "{:.0f} | {} | {} | {} |\n",
      figures.trace, static_cast<double>(figures.bytes_live_peak()) / 1048576, 100 * first.bound,
      100 * last.bound, 100 * last.bound_in_its_time, 100 * figures.waste(1),
      100 * figures.waste(figures.passes.size()), figures.passes_grown(), total(first.calls),
      has_fourth ? fmt::to_string(total(figures.passes[kPassFour].calls)) : "-", total(last.calls),
      last.calls_of(DriverCall::event_record), queries(last),
      last.calls_of(DriverCall::stream_wait_event), calls_per_operation_at_last(figures),
      last.mean_ns, last.p999_ns,
      last.counters ? fmt::to_string(last.counters->allocations_grown) : "-",
      last.counters ? fmt::to_string(last.counters->blocks_passed_on) : "-", refused);
}

nlohmann::ordered_json to_json(const BusyFigures& figures) {
  nlohmann::ordered_json object;
  object["trace"] = figures.trace;
  object["operations"] = figures.operations;
  object["streams"] = figures.streams;
  object["bytes_live_peak"] = figures.bytes_live_peak();
  object["bound"] = figures.passes.back().bound;
  object["waste"] = figures.waste(figures.passes.size());
  object["waste_first"] = figures.waste(1);
  object["passes_grown"] = figures.passes_grown();
  object["passes"] = nlohmann::ordered_json::array();
  for (const BusyPassFigures& pass : figures.passes) object["passes"].push_back(pass_json(pass));
  return object;
}

}  // namespace berth::bench
