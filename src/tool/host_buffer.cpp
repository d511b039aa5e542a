// SPDX-License-Identifier: Apache-2.0
#include "tool/host_buffer.hpp"

#include <fmt/format.h>

#include "berth/bytes.hpp"
#include "berth/error.hpp"

namespace berth::tool {

HostBuffer::HostBuffer(std::size_t bytes)
    : pageable_(static_cast<std::byte*>(std::calloc(bytes, 1))), pageable_bytes_(bytes) {
  if (pageable_ != nullptr || bytes == 0) return;
  throw OutOfMemory(
      fmt::format("the host has no {} for a buffer of pageable memory", format_bytes(bytes)));
}

}  // namespace berth::tool
