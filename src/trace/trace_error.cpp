// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_error.hpp"

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/quoted.hpp"

namespace berth {

void reject_trace(const std::string& name, std::string_view problem) {
  throw InvalidArgument(format_text("{}: {}", on_one_line(name), problem));
}

void reject_trace_line(const std::string& name, std::size_t line, std::string_view problem) {
  throw InvalidArgument(format_text("{}:{}: {}", on_one_line(name), line, problem));
}

}  // namespace berth
