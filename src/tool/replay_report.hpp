// SPDX-License-Identifier: Apache-2.0
// Replay results as rows and as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tool/replay.hpp"
#include "tool/table.hpp"

namespace berth::tool {

/// The name of the trace in a row: the file's name without folder and format.
std::string short_trace_name(const std::string& path);
/// The name in the row of one device of a trace.
std::string row_name(const std::string& trace, std::int32_t device);

class ReplayTable {
 public:
  /// `name_width` columns for the names of traces.
  explicit ReplayTable(std::size_t name_width);

  [[nodiscard]] std::size_t name_width() const { return name_width_; }

  [[nodiscard]] std::string header() const;
  [[nodiscard]] std::string row(const ReplayResult& result) const;

 private:
  std::size_t name_width_;
  Table table_;
};

/// A line with the number of requests refused as out of memory; empty if there are none.
std::string describe_refusals(const ReplayResult& result);

/// A summary of all results in a few lines: waste, steady state, refused requests.
std::string summarize(const std::vector<ReplayResult>& results);

nlohmann::ordered_json to_json(const ReplayResult& result);

}  // namespace berth::tool
