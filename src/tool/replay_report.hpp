// SPDX-License-Identifier: Apache-2.0
// Replay results as rows and as JSON.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tool/replay.hpp"
#include "tool/table.hpp"

namespace berth::tool {

/// The file's name without folder and format: what a row calls the trace.
std::string short_trace_name(const std::string& path);

class ReplayTable {
 public:
  /// `name_width` columns for the names of traces.
  explicit ReplayTable(std::size_t name_width);

  [[nodiscard]] std::string header() const;
  [[nodiscard]] std::string row(const ReplayResult& result) const;

 private:
  Table table_;
};

/// A line that counts the requests refused as out of memory; empty where there are none.
std::string describe_refusals(const ReplayResult& result);

/// What all results have in common, in a few lines: waste, steady state, refused requests.
std::string summarize(const std::vector<ReplayResult>& results);

nlohmann::ordered_json to_json(const ReplayResult& result);

}  // namespace berth::tool
