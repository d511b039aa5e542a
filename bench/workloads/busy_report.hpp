// SPDX-License-Identifier: Apache-2.0
// BusyFigures as rows of a table, and as JSON.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "workloads/busy_figures.hpp"

namespace berth::bench {

/// Two lines: a row of column names, and the one that makes a Markdown table of what follows.
std::string busy_header();
std::string busy_row(const BusyFigures& figures);

nlohmann::ordered_json to_json(const BusyFigures& figures);

}  // namespace berth::bench
