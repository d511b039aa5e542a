// SPDX-License-Identifier: Apache-2.0
#include "trace/host_limit.hpp"

#include "berth/bytes.hpp"

#include "base/format.hpp"

namespace berth {

std::string describe_host_limit(std::uint64_t bytes_max) {
  return format_text(
      "reading needs more than {} of host memory beside the file's content; accepted: a smaller "
      "trace, or a higher limit (TraceOptions::host_bytes_max, --host-memory)",
      format_bytes(bytes_max));
}

std::string describe_large_content(std::uint64_t bytes_max) {
  return format_text(
      "the content is larger than {}; accepted: a smaller file, or a higher limit "
      "(TraceOptions::host_bytes_max, --host-memory)",
      format_bytes(bytes_max));
}

}  // namespace berth
