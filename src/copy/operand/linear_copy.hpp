// SPDX-License-Identifier: Apache-2.0
// A copy of one contiguous range.
#pragma once

#include "copy/operand/copy_shape.hpp"

namespace berth {

class LinearHost final : public HostSide {
 public:
  /// The pointer is not const, but a source is never written.
  explicit LinearHost(std::byte* data) : data_(data) {}
  void read(std::byte* staging, std::size_t offset, std::size_t bytes) override;
  void write(const std::byte* staging, std::size_t offset, std::size_t bytes) override;

 private:
  std::byte* const data_;
};

class LinearDevice final : public DeviceSide {
 public:
  explicit LinearDevice(std::byte* data) : data_(data) {}
  void submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                    StreamRef stream) override;
  void submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                   StreamRef stream) override;

 private:
  std::byte* const data_;
};

class LinearCopy final : public CopyShape {
 public:
  LinearCopy(const MemorySide& to, const MemorySide& from, std::size_t bytes)
      : CopyShape(to.kind, from.kind), target_(to.data), source_(from.data), bytes_(bytes) {}

  [[nodiscard]] std::size_t bytes() const override { return bytes_; }
  void check_pageable() const override;
  void copy_on_host() const override;
  void submit(DirectSubmission& submission) const override;
  [[nodiscard]] std::unique_ptr<HostSide> host_side(CopyDirection direction) const override;
  [[nodiscard]] std::unique_ptr<DeviceSide> device_side(CopyDirection direction) const override;

 private:
  std::byte* const target_;
  std::byte* const source_;
  const std::size_t bytes_;
};

}  // namespace berth
