// SPDX-License-Identifier: Apache-2.0
#include "copy/operand/linear_copy.hpp"

#include <cstring>

#include "copy/operand/readable_memory.hpp"

namespace berth {

void LinearHost::read(std::byte* staging, std::size_t offset, std::size_t bytes) {
  std::memcpy(staging, data_ + offset, bytes);
}

void LinearHost::write(const std::byte* staging, std::size_t offset, std::size_t bytes) {
  std::memcpy(data_ + offset, staging, bytes);
}

void LinearDevice::submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                                StreamRef stream) {
  submit_linear(data_ + offset, staging, bytes, {}, stream);
}

void LinearDevice::submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                               StreamRef stream) {
  submit_linear(staging, data_ + offset, bytes, {}, stream);
}

void LinearCopy::check_pageable() const {
  if (to().is_pageable()) require_writable(target_, bytes_);
  if (from().is_pageable()) require_readable(source_, bytes_);
}

void LinearCopy::copy_on_host() const {
  std::memcpy(target_, source_, bytes_);
}

void LinearCopy::submit(DirectSubmission& submission) const {
  submission.add(target_, source_, bytes_);
}

std::unique_ptr<HostSide> LinearCopy::host_side(CopyDirection direction) const {
  return std::make_unique<LinearHost>(direction == CopyDirection::to_device ? source_ : target_);
}

std::unique_ptr<DeviceSide> LinearCopy::device_side(CopyDirection direction) const {
  return std::make_unique<LinearDevice>(direction == CopyDirection::to_device ? target_ : source_);
}

}  // namespace berth
