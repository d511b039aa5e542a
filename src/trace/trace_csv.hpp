// SPDX-License-Identifier: Apache-2.0
// berth's own trace format: `# key: value` lines, the line of column names, one line for each
// event. docs/traces.md has the rules.
#pragma once

#include <string>
#include <string_view>

#include "berth/trace.hpp"

namespace berth {

/// Errors  InvalidArgument that names the file, the line, and what is accepted there.
Trace parse_trace_csv(const std::string& name, std::string_view content);

}  // namespace berth
