// SPDX-License-Identifier: Apache-2.0
// berth's own trace format: `# key: value` lines, the line of column names, one line for each
// event. docs/traces.md has the rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "berth/trace.hpp"

#include "trace/host_limit.hpp"

namespace berth {

/// `host_bytes_max` limits the trace and the table of its blocks, without `content`.
/// Errors  InvalidArgument that names the file, the line, and the accepted values.
Trace parse_trace_csv(const std::string& name, std::string_view content,
                      std::uint64_t host_bytes_max = kTraceHostBytesMax);

}  // namespace berth
