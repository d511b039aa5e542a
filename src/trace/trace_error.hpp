// SPDX-License-Identifier: Apache-2.0
// Errors about a trace: one line that names the file and the place in it, whatever bytes the file
// contains.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace berth {

/// Throws InvalidArgument "name: problem".
[[noreturn]] void reject_trace(const std::string& name, std::string_view problem);
/// Throws InvalidArgument "name:line: problem".
[[noreturn]] void reject_trace_line(const std::string& name, std::size_t line,
                                    std::string_view problem);

}  // namespace berth
