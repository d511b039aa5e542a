// SPDX-License-Identifier: Apache-2.0
// The host end of a copy of several ranges, which are packed in staging memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>

#include "copy/operand/copy_sides.hpp"

namespace berth {

/// `Layout` maps packed bytes to host memory, as Rows and Scattered do.
template <class Layout>
class PackedHost final : public HostSide {
 public:
  explicit PackedHost(Layout layout) : layout_(std::move(layout)) {}

  void read(std::byte* staging, std::size_t offset, std::size_t bytes) override {
    layout_.for_each_stretch(offset, bytes,
                             [&](const std::byte* data, std::size_t position, std::size_t stretch) {
                               std::memcpy(staging + position, data, stretch);
                             });
  }

  void write(const std::byte* staging, std::size_t offset, std::size_t bytes) override {
    layout_.for_each_stretch(offset, bytes,
                             [&](std::byte* data, std::size_t position, std::size_t stretch) {
                               std::memcpy(data, staging + position, stretch);
                             });
  }

 private:
  const Layout layout_;
};

}  // namespace berth
