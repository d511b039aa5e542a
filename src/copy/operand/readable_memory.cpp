// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/readable_memory.hpp"

#include "berth/error.hpp"

#include "base/format.hpp"
#include "base/process_memory.hpp"

namespace berth {
namespace {

[[noreturn]] void refuse(const void* data, std::size_t bytes, const char* verb,
                         const void* missing) {
  throw InvalidArgument(
      format_text("{} with {} B is memory of no device, and this process cannot {} it at {}; "
                  "accepted: existing memory of a device or of the host",
                  data, bytes, verb, missing));
}

}  // namespace

void require_readable(const void* data, std::size_t bytes) {
  const void* const missing = find_unreadable(data, bytes);
  if (missing != nullptr) refuse(data, bytes, "read", missing);
}

void require_writable(const void* data, std::size_t bytes) {
  const void* const missing = find_unwritable(data, bytes);
  if (missing != nullptr) refuse(data, bytes, "write", missing);
}

}  // namespace berth
