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

/// The name of the trace in a row: the file's name without folder and format.
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

/// A line with the number of requests refused as out of memory; empty if there are none.
std::string describe_refusals(const ReplayResult& result);

/// A summary of all results in a few lines: waste, steady state, refused requests.
std::string summarize(const std::vector<ReplayResult>& results);

nlohmann::ordered_json to_json(const ReplayResult& result);

}  // namespace berth::tool
