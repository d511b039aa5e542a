// SPDX-License-Identifier: Apache-2.0
// A device's end of a staged copy that calls a function before each submission.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "berth/stream.hpp"

#include "copy/operand/copy_sides.hpp"
#include "copy/operand/linear_copy.hpp"

namespace berth::bench {

class ObservedDevice final : public DeviceSide {
 public:
  ObservedDevice(std::byte* data, std::function<void()> before)
      : memory_(data), before_(std::move(before)) {}
  void submit_write(const std::byte* staging, std::size_t offset, std::size_t bytes,
                    StreamRef stream) override {
    before_();
    memory_.submit_write(staging, offset, bytes, stream);
  }
  void submit_read(std::byte* staging, std::size_t offset, std::size_t bytes,
                   StreamRef stream) override {
    before_();
    memory_.submit_read(staging, offset, bytes, stream);
  }

 private:
  LinearDevice memory_;
  const std::function<void()> before_;
};

}  // namespace berth::bench
