// SPDX-License-Identifier: Apache-2.0
#include "tool/replay_report.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "berth/bytes.hpp"

namespace berth::tool {
namespace {

nlohmann::ordered_json calls_json(const std::vector<DriverCallCount>& calls) {
  auto object = nlohmann::ordered_json::object();
  for (const DriverCallCount& count : calls) object[count.function] = count.calls;
  return object;
}

/// A toy program on one segment would waste 110978 %, which is meaningless: only JSON has the
/// number.
std::string percent(double fraction) {
  constexpr double shown_max = 9.99;
  if (fraction > shown_max) return ">999%";
  return fmt::format("{:.1f}%", fraction * 100);
}

std::string name_of(const ReplayResult& result) {
  return row_name(result.trace, result.trace_device);
}

std::string summarize_waste(const std::vector<ReplayResult>& results) {
  std::vector<std::pair<double, std::string>> wastes;
  for (const ReplayResult& result : results)
    if (const auto waste = result.waste()) wastes.emplace_back(*waste, name_of(result));
  if (wastes.empty()) return "";
  std::ranges::sort(wastes);
  const std::size_t middle = wastes.size() / 2;
  const double median = wastes.size() % 2 == 1
                            ? wastes[middle].first
                            : (wastes[middle - 1].first + wastes[middle].first) / 2;
  return fmt::format("waste: median {}, worst {} ({})\n", percent(median),
                     percent(wastes.back().first), wastes.back().second);
}

std::string summarize_steady(const std::vector<ReplayResult>& results) {
  std::size_t measured = 0;
  std::size_t quiet = 0;
  for (const ReplayResult& result : results) {
    if (!result.driver_calls_steady) continue;
    ++measured;
    if (total_calls(*result.driver_calls_steady) == 0) ++quiet;
  }
  if (measured == 0) return "";
  return fmt::format("last pass: no driver call in {} of {}\n", quiet, measured);
}

}  // namespace

std::string short_trace_name(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view ending : {".gz", ".csv", ".json", ".pickle", ".pkl"})
    if (name.size() > ending.size() && name.ends_with(ending))
      name.resize(name.size() - ending.size());
  return name;
}

// A trace of several devices has several rows.
std::string row_name(const std::string& trace, std::int32_t device) {
  std::string name = short_trace_name(trace);
  if (device != 0) name += fmt::format("@{}", device);
  return name;
}

ReplayTable::ReplayTable(std::size_t name_width)
    : name_width_(name_width),
      table_({{"trace", name_width},
              {"live", 8, true},
              {"reserved", 8, true},
              {"waste", 6, true},
              {"calls", 6, true},
              {"steady", 6, true},
              {"ns/op", 5, true}}) {}

std::string ReplayTable::header() const {
  return table_.header();
}

std::string ReplayTable::row(const ReplayResult& result) const {
  const auto waste = result.waste();
  const auto& steady = result.driver_calls_steady;
  return table_.row(
      {name_of(result), format_bytes(result.bytes_live_peak),
       format_bytes(result.bytes_reserved_peak), waste ? percent(*waste) : "-",
       fmt::to_string(total_calls(result.driver_calls)),
       steady ? fmt::to_string(total_calls(*steady)) : "-",
       result.ns_per_operation ? fmt::format("{:.0f}", *result.ns_per_operation) : "-"});
}

std::string describe_refusals(const ReplayResult& result) {
  if (result.out_of_memory == 0) return "";
  return fmt::format("out of memory: {} {} of {} in {} {}\n", result.out_of_memory,
                     result.out_of_memory == 1 ? "request" : "requests", name_of(result),
                     result.passes, result.passes == 1 ? "pass" : "passes");
}

std::string summarize(const std::vector<ReplayResult>& results) {
  std::string text = summarize_waste(results) + summarize_steady(results);
  for (const ReplayResult& result : results) text += describe_refusals(result);
  return text;
}

nlohmann::ordered_json to_json(const ReplayResult& result) {
  nlohmann::ordered_json object;
  object["trace"] = result.trace;
  object["trace_device"] = result.trace_device;
  object["driver"] = result.driver;
  object["device"] = result.device;
  object["passes"] = result.passes;
  object["operations"] = result.operations;
  object["allocations"] = result.allocations;
  object["bytes_live_peak"] = result.bytes_live_peak;
  object["bytes_reserved_peak"] = result.bytes_reserved_peak;
  object["waste"] = nullptr;
  if (const auto waste = result.waste()) object["waste"] = *waste;
  object["driver_calls"] = calls_json(result.driver_calls);
  object["driver_calls_steady"] = nullptr;
  object["driver_calls_steady_by_function"] = nullptr;
  if (result.driver_calls_steady) {
    object["driver_calls_steady"] = total_calls(*result.driver_calls_steady);
    object["driver_calls_steady_by_function"] = calls_json(*result.driver_calls_steady);
  }
  object["ns_per_operation"] = nullptr;
  if (result.ns_per_operation) object["ns_per_operation"] = *result.ns_per_operation;
  object["out_of_memory"] = result.out_of_memory;
  object["page_remaps"] = result.page_remaps;
  return object;
}

}  // namespace berth::tool
